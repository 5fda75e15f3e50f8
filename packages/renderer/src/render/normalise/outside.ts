import { isInCidr, parseAddress, parseCidr, type Problem } from '@sluice/netfilter';
import type { SluiceConfig } from '../model/config.ts';
import type { Path } from '../model/kube.ts';
import { clusterIPPath } from '../read/service-addresses.ts';
import type { ReadService } from '../read/read-service.ts';
import type { MadeServices } from './service.ts';

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

function outside({ key, object }: ReadService, path: Path, what: string, field: keyof SluiceConfig['named']): Problem {
  return {
    code: 'RANGE_OUTSIDE',
    level: 'warning',
    at: object.origin.place(path),
    object: `Service ${key}`,
    message: `Cannot reserve ${what} of Service ${key}: it is outside of ${whose[field]}`,
    hint: `Choose one inside, or correct ${field}: the API server refuses numbers outside of its ranges`,
  };
}
