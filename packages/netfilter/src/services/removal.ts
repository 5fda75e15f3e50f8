import { getOrInsert } from '../maps.ts';
import { families, type Family } from '../family.ts';
import { protocols } from '../nftables/table.ts';
import { planeOf } from './planes.ts';
import type { ForwardingState } from './services.ts';

/** The number of endpoints of each Service that has some, by any name that a Service keeps. */
type EndpointCounts = ReadonlyMap<string, number>;

/** From which size on a change is a removal. */
export interface RemovalBound {
  /** It takes away more than this share of all Services, or of all endpoints: 0 to 1; with 1 no change is one. */
  readonly share: number;
  /** And at least so many of them. */
  readonly least: number;
}

/** What a change takes away: `lost` of `of`. */
interface Lost {
  readonly lost: number;
  readonly of: number;
}

/** A change that leaves many Services without endpoints. */
export interface Removal {
  readonly services: Lost;
  /** The endpoints of these Services. */
  readonly endpoints: Lost;
}

/** What is taken away, in words. @param what is counted beside endpoints: `Services` */
export const printRemoval = ({ services, endpoints }: Removal, what: string): string =>
  `${services.lost} of ${services.of} ${what}, with ${endpoints.lost} of ${endpoints.of} endpoints`;

/**
 * Whether a change is a removal: Services are gone, or have no endpoint left. A Service that keeps one does not count, however many it
 * loses: its connections are better off without endpoints that may be dead. One Service alone may lose any number of endpoints.
 * @returns undefined: it is none
 */
export function removalOf(
  before: EndpointCounts,
  after: EndpointCounts,
  { share, least }: RemovalBound,
): Removal | undefined {
  const [services, endpoints] = [
    { lost: 0, of: 0 },
    { lost: 0, of: 0 },
  ];
  for (const [service, count] of before) {
    const isLost = count > 0 && (after.get(service) ?? 0) === 0;
    services.of += count > 0 ? 1 : 0;
    services.lost += isLost ? 1 : 0;
    endpoints.of += count;
    endpoints.lost += isLost ? count : 0;
  }
  const isMany = ({ lost, of }: Lost): boolean => lost >= least && lost > share * of;
  return isMany(services) || (services.lost > 1 && isMany(endpoints)) ? { services, endpoints } : undefined;
}

/**
 * The same for the rules of a node, by family. There a Service is an address of its own: a ClusterIP, and each external address. Its
 * endpoints count once, whatever their ports. Names are not compared: comments have them, and not every data plane does.
 * @returns the removal of a family
 */
export function removalBetween(from: ForwardingState, to: ForwardingState, bound: RemovalBound): Removal | undefined {
  if (!mayRemove(from, to, bound)) return undefined;
  const [before, after] = [endpointsBehind(from), endpointsBehind(to)];
  const found = families.map((family) => removalOf(countsOf(before[family]), countsOf(after[family]), bound));
  return found.find((one) => one !== undefined);
}

/** A bound that costs what differs: reading all Services of a large node takes a second. */
function mayRemove(from: ForwardingState, to: ForwardingState, { least }: RemovalBound): boolean {
  if (planeOf(from) !== planeOf(to)) return true;
  const { changed, removed } = planeOf(from).compare(from, to);
  let lost = 0;
  // A Service can have several of these, but none has fewer endpoints than are lost with it.
  for (const { before, after } of [...removed, ...changed]) {
    if ((after?.endpoints.size ?? 0) === 0) lost += before?.endpoints.size ?? 0;
    if (lost >= least) return true;
  }
  return false;
}

const nothing: ForwardingState = { families: {} };

/** The addresses of endpoints by the address of their Service. */
type EndpointsByAddress = ReadonlyMap<string, ReadonlySet<string>>;

const countsOf = (endpoints: EndpointsByAddress): EndpointCounts =>
  new Map([...endpoints].map(([address, { size }]) => [address, size]));

function endpointsBehind(state: ForwardingState): Readonly<Record<Family, EndpointsByAddress>> {
  const found: Record<Family, Map<string, Set<string>>> = { ipv4: new Map(), ipv6: new Map() };
  const services = planeOf(state).read(state);
  for (const protocol of protocols)
    for (const { family, address, endpoint } of services.served(protocol, nothing)) {
      if (address === undefined) continue;
      getOrInsert(found[family], address, () => new Set()).add(endpoint.slice(0, endpoint.lastIndexOf(':')));
    }
  return found;
}
