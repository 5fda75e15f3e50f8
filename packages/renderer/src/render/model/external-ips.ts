import { externalIPsEnd, notice, plural, type Problem } from '@sluice/netfilter';
import type { SluiceConfig } from './config.ts';
import type { Model, PortOfFamily, Service } from './model.ts';
import { profilesInUse } from './profiles-in-use.ts';

/** Whether any node serves external IPs. */
export function servesExternalIPs(model: Pick<Model, 'nodes'>, config: SluiceConfig): boolean {
  return profilesInUse(model, config).some(({ featureGates }) => featureGates.AllowServiceExternalIPs);
}

/**
 * A Service without its external IPs, as kube-proxy treats it with feature gate `AllowServiceExternalIPs` off (`ExternalIPs()` in
 * `pkg/proxy/serviceport.go`). kube-proxy still writes external chains of such a Service, which no rule jumps to; they are left out
 * here.
 */
export function withoutExternalIPs(service: Service): Service {
  if (!hasExternalIPs(service)) return service;
  const ports = service.ports.map((port) => {
    const { ipv4, ipv6 } = port.families;
    const families = {
      ...(ipv4 && { ipv4: { ...ipv4, externalIPs: [] } }),
      ...(ipv6 && { ipv6: { ...ipv6, externalIPs: [] } }),
    };
    return { ...port, families };
  });
  return { ...service, ports };
}

const hasExternalIPs = ({ ports }: Service): boolean =>
  ports.some(({ families }) => Object.values(families).some((here: PortOfFamily) => here.externalIPs.length > 0));

/** One note where nodes serve external IPs. @param services without those that no node serves */
export function endingExternalIPs(services: readonly Service[]): readonly Problem[] {
  const [first, ...others] = services.filter(hasExternalIPs);
  if (!first) return [];
  const more = others.length === 0 ? '' : ` and ${plural(others.length, 'other Service')}`;
  return [
    notice(
      'EXTERNAL_IPS_END',
      `${first.namespace}/${first.name}${more} can be reached at external IPs, which are ${externalIPsEnd}`,
      'Nodes with Sluice go on with them; for kube-proxy use type LoadBalancer, or set featureGates: {AllowServiceExternalIPs: true} in its configuration in time: /usr/share/doc/sluice/adopt.md',
    ),
  ];
}
