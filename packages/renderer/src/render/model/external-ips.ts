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
  const hasNone = (here: PortOfFamily): boolean => here.externalIPs.length === 0;
  if (service.ports.every(({ families }) => Object.values(families).every(hasNone))) return service;
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
