import { compareText, families, type Family, printEndpoint, type Problem, refusal } from '@sluice/netfilter';
import type { Path } from '../model/kube.ts';
import { printPlace } from '../layer/unique.ts';
import type { PortOfFamily, ServicePort } from '../model/model.ts';
import type { ReadService } from '../read/read-service.ts';
import { clusterIPPath } from '../read/service-addresses.ts';
import type { MadeServices } from './service.ts';

/** The first Service to claim an address or a node port. */
interface ServiceClaim {
  readonly read: ReadService;
  readonly path: Path;
}

interface Clashes {
  readonly problems: readonly Problem[];
  /** Services that lose an address or a node port, and those that keep it; the oldest first. */
  readonly lost: readonly LostClaim[];
}

export interface LostClaim {
  readonly service: string;
  readonly to: string;
}

/**
 * Finds Services with the same address, port and protocol, or with the same node port, for which kube-proxy's result is random.
 * Addresses are ClusterIPs, external IPs and load-balancer addresses, in any combination; node ports include those for health checks,
 * which are TCP. Node ports of two protocols do not clash.
 * The older Service keeps the address (`creationTimestamp`; a Service without one is newer), then the first by name.
 * @param services sorted, each with its parsed object
 */
export function findClashes(services: MadeServices): Clashes {
  const claimed = new Map<string, ServiceClaim>();
  const problems: Problem[] = [];
  const lost: LostClaim[] = [];
  const claim = (thing: string, code: ClashCode, next: ServiceClaim): void => {
    const first = claimed.get(thing);
    if (first === undefined) claimed.set(thing, next);
    else if (first.read !== next.read) {
      problems.push(clash(thing, code, first, next));
      lost.push({ service: next.read.key, to: first.read.key });
    }
  };
  for (const [read, service] of services.toSorted(([a], [b]) => compareText(bornAt(a), bornAt(b)))) {
    const seen = new Set<number>();
    const indexes = new Map(read.ports.map((port) => [portKey(port), port.index]));
    for (const port of service.ports) {
      claimAddresses(read, port, (thing, path) => claim(thing, 'VIP_CONFLICT', { read, path }));
      const path: Path = ['spec', 'ports', indexes.get(portKey(port)) ?? 0, 'nodePort'];
      if (port.nodePort > 0) claim(`node port ${port.nodePort}/${port.protocol}`, 'NODE_PORT_CONFLICT', { read, path });
      const health = port.healthCheckNodePort;
      if (health === 0 || seen.has(health)) continue;
      seen.add(health);
      claim(`node port ${health}/TCP`, 'NODE_PORT_CONFLICT', { read, path: ['spec', 'healthCheckNodePort'] });
    }
  }
  return { problems, lost };
}

/** The time of creation; a Service without one sorts last. */
function bornAt({ object }: ReadService): string {
  const { creationTimestamp: born } = (object.value['metadata'] ?? {}) as { readonly creationTimestamp?: unknown };
  return typeof born === 'string' ? born : '~';
}

type ClashCode = 'VIP_CONFLICT' | 'NODE_PORT_CONFLICT';

function claimAddresses(read: ReadService, port: ServicePort, claim: (thing: string, path: Path) => void): void {
  for (const family of families) {
    const front = port.families[family];
    for (const { address, path } of front ? addressesOf(read, front, family) : [])
      claim(`${printEndpoint(address, port.port)}/${port.protocol}`, path);
  }
}

/** An address of a Service, and the path of its field. */
export interface PlacedAddress {
  readonly address: string;
  readonly path: Path;
}

/** The addresses of a Service in one family: its ClusterIP, external IPs and those of load balancers. */
export function addressesOf(read: ReadService, front: PortOfFamily, family: Family): readonly PlacedAddress[] {
  const indexOf = (address: string): number => read.ingress.find((one) => one.address === address)?.index ?? 0;
  return [
    { address: front.clusterIP, path: clusterIPPath(read, family) },
    ...front.externalIPs.map((address) => ({
      address,
      path: ['spec', 'externalIPs', read.externalIPs.indexOf(address)],
    })),
    ...front.loadBalancerIPs.map((address) => ({
      address,
      path: ['status', 'loadBalancer', 'ingress', indexOf(address), 'ip'],
    })),
  ];
}

/** Unique in a Service. */
const portKey = ({ port, protocol }: Pick<ServicePort, 'port' | 'protocol'>): string => `${port}/${protocol}`;

function clash(thing: string, code: ClashCode, first: ServiceClaim, next: ServiceClaim): Problem {
  const place = printPlace(first.read.object.origin.place(first.path));
  return refusal(
    code,
    `Cannot use ${thing} for two Services: Service ${first.read.key} has it at ${place}`,
    code === 'VIP_CONFLICT'
      ? 'Change the address or the port of one of the two'
      : 'Change the node port of one of the two, or leave it out',
    { at: next.read.object.origin.place(next.path), object: `Service ${next.read.key}` },
  );
}
