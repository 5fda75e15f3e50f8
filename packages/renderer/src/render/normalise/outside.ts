import { isInCidr, parseAddress, parseCidr, type Problem, compareText, warning } from '@sluice/netfilter';
import type { SluiceConfig } from '../model/config.ts';
import type { Path } from '../model/kube.ts';
import { clusterIPPath } from '../read/service-addresses.ts';
import type { ReadService } from '../read/read-service.ts';
import type { MadeServices } from './service.ts';
import type { PerFamily } from '../model/model.ts';
import { familyOf } from '../read/addresses.ts';
import { isSameList } from './differences-of.ts';
import type { ReadServiceCIDR } from '../read/service-cidr.ts';

/**
 * ClusterIPs and node ports outside of the ranges of sluice.yaml and ServiceCIDRs, which the API server would refuse. Without ranges
 * nothing is checked.
 * @returns a warning for each
 */
export function findOutside(
  services: MadeServices,
  { serviceCIDRs, nodePortRange, named }: Pick<SluiceConfig, 'serviceCIDRs' | 'nodePortRange' | 'named'>,
): readonly Problem[] {
  const found: Problem[] = [];
  for (const [read, { ports }] of services) {
    const addresses = new Set<string>();
    for (const { families, nodePort } of ports) {
      const isOutside = nodePort !== 0 && (nodePort < nodePortRange.from || nodePort > nodePortRange.to);
      if (named.nodePortRange && isOutside)
        found.push(outside(read, portPath(read, nodePort), `node port ${nodePort}`, 'nodePortRange'));
      for (const family of ['ipv4', 'ipv6'] as const) {
        const [front, ranges] = [families[family], serviceCIDRs[family]];
        if (!named.serviceCIDRs || !front || ranges === undefined || addresses.has(front.clusterIP)) continue;
        addresses.add(front.clusterIP);
        if (!ranges.some((range) => isIn(front.clusterIP, range)))
          found.push(outside(read, clusterIPPath(read, family), `ClusterIP ${front.clusterIP}`, 'serviceCIDRs'));
      }
    }
  }
  return found;
}

function isIn(text: string, range: string): boolean {
  const [address, cidr] = [parseAddress(text), parseCidr(range)];
  return address !== undefined && cidr !== undefined && isInCidr(address, cidr);
}

function portPath(read: ReadService, nodePort: number): Path {
  const index = read.ports.findIndex((port) => port.nodePort === nodePort);
  return index < 0 ? ['spec', 'ports'] : ['spec', 'ports', index, 'nodePort'];
}

/** The sources of the ranges. */
const whose = {
  serviceCIDRs: 'serviceCIDRs in sluice.yaml and the ServiceCIDRs of the cluster',
  nodePortRange: 'nodePortRange in sluice.yaml',
} as const;

const outside = ({ key, object }: ReadService, path: Path, what: string, field: keyof SluiceConfig['named']): Problem =>
  warning(
    'RANGE_OUTSIDE',
    `Cannot reserve ${what} of Service ${key}: it is outside of ${whose[field]}`,
    `Choose one inside, or correct ${field}: the API server refuses numbers outside of its ranges`,
    { at: object.origin.place(path), object: `Service ${key}` },
  );

/** The ServiceCIDR of --service-cluster-ip-range (`DefaultServiceCIDRName`); `serviceCIDRs` of sluice.yaml replaces it. */
const defaultName = 'kubernetes';

/**
 * The config with the service CIDRs of the cluster: those of sluice.yaml, else of the ServiceCIDR `kubernetes`, else the default, and
 * those of every other ServiceCIDR. Like kube-proxy it uses all of them, with any conditions (`ServiceCIDRConfig`,
 * `pkg/proxy/config/config.go`); new addresses are only taken from open ones.
 * @param problems receives `SERVICE_CIDRS_DIFFER`
 * @returns the same config without such objects
 */
export function withServiceCIDRs(
  config: SluiceConfig,
  objects: ReadonlyMap<string, ReadServiceCIDR>,
  problems: Problem[],
): SluiceConfig {
  if (objects.size === 0) return config;
  const ofApi = objects.get(defaultName);
  const others = [...objects.values()].filter(({ name }) => name !== defaultName);
  const written = Object.values(config.serviceCIDRs).flat();
  if (ofApi && config.named.serviceCIDRs && !isSameList(ofApi.cidrs, written)) problems.push(differ(ofApi, written));
  const first = ofApi && !config.named.serviceCIDRs ? ofApi.cidrs : written;
  const more = others.toSorted((a, b) => compareText(a.name, b.name)).flatMap(({ cidrs }) => cidrs);
  const all = [...new Set([...first, ...more])];
  const closed = [...objects.values()].filter(({ isOpen }) => !isOpen).flatMap(({ cidrs }) => cidrs);
  return {
    ...config,
    serviceCIDRs: perFamily(all),
    closedServiceCIDRs: closed.toSorted(compareText),
    primaryFamily: ofApi && !config.named.serviceCIDRs ? familyOf(ofApi.cidrs[0] ?? '') : config.primaryFamily,
    // Without `kubernetes` the objects are incomplete, so that addresses outside of them are not reported.
    named: { ...config.named, serviceCIDRs: config.named.serviceCIDRs || ofApi !== undefined },
  };
}

function perFamily(cidrs: readonly string[]): PerFamily<readonly string[]> {
  return Object.fromEntries(Map.groupBy(cidrs, familyOf));
}

const differ = ({ name, object, cidrs }: ReadServiceCIDR, written: readonly string[]): Problem =>
  warning(
    'SERVICE_CIDRS_DIFFER',
    `Cannot use both serviceCIDRs of sluice.yaml (${written.join(', ')}) and this object (${cidrs.join(', ')}): sluice.yaml takes precedence`,
    'Remove serviceCIDRs from sluice.yaml, or correct it',
    { at: object.origin.place(['spec', 'cidrs']), object: `ServiceCIDR ${name}` },
  );
