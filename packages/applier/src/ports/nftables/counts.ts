import { compareText, frontendKey, type TransportProtocol } from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import { withHexadecimal } from './observed.ts';

/** New connections to an endpoint of a frontend. */
export interface EndpointCount {
  /** `10.96.0.10 . tcp . 80` */
  readonly frontend: string;
  /** `10.244.1.5 . 8080` */
  readonly endpoint: string;
  readonly connections: number;
}

/** The maps whose elements count, each with the protocol of its keys; `undefined`: the key has it. */
export const countedMaps: ReadonlyMap<string, TransportProtocol | undefined> = new Map(
  (['4', '6'] as const).flatMap((n) => [
    ...(['tcp', 'udp', 'sctp'] as const).map((name) => [`${name}${n}`, name] as const),
    ...['id', 'idb', 'lid', 'lidb'].map((name) => [`${name}${n}`, undefined] as const),
  ]),
);

/** An element of such a map. */
export interface CountedElement extends EndpointCount {
  readonly key: string;
}

const element = /([0-9a-f.:]+(?: \. [0-9a-f:]+)+) counter packets (\d+) bytes \d+ : (\S+ \. \d+)/g;
const protocolNames: ReadonlyMap<string, TransportProtocol> = new Map([
  ['6', 'tcp'],
  ['17', 'udp'],
  ['132', 'sctp'],
]);

/** Reads the elements of a counted map in the listing of `nft -n list map`. */
export function readCounts(map: string, listing: string): readonly CountedElement[] {
  const protocol = countedMaps.get(map);
  const text = map.endsWith('6') ? withHexadecimal(listing) : listing;
  return [...text.matchAll(element)].flatMap(([, key = '', packets = '', endpoint = '']) => {
    const [address = '', ...rest] = key.split(' . ');
    const [its, port] = protocol === undefined ? [protocolNames.get(rest[0] ?? ''), rest[1]] : [protocol, rest[0]];
    if (its === undefined) return [];
    const frontend = frontendKey({ address, protocol: its, port: Number(port) });
    return [{ key, frontend, endpoint, connections: Number(packets) }];
  });
}

const deletion = /^delete element inet sluice ([a-z]+[46]) \{ (.*) \}$/gm;

/**
 * The elements that a transaction deletes and whose counts end with them, by map.
 * @returns `all` where the table itself goes
 */
export function deletedCounts(text: string): ReadonlyMap<string, ReadonlySet<string>> | 'all' {
  if (/^delete table inet sluice$/m.test(text)) return 'all';
  const found = new Map<string, Set<string>>();
  for (const [, map = '', keys = ''] of text.matchAll(deletion)) {
    if (!countedMaps.has(map)) continue;
    const own = found.get(map) ?? new Set<string>();
    for (const key of keys.split(', ')) own.add(key);
    found.set(map, own);
  }
  return found;
}

/** What elements had counted that are not in the table any more. Bounded: those that were deleted first are forgotten first. */
export class DeletedCounts {
  readonly #counts = new Map<string, EndpointCount>();

  add(counted: Iterable<EndpointCount>): void {
    for (const { frontend, endpoint, connections } of counted) {
      if (connections === 0) continue;
      const id = `${frontend} ${endpoint}`;
      const before = this.#counts.get(id)?.connections ?? 0;
      this.#counts.delete(id);
      this.#counts.set(id, { frontend, endpoint, connections: before + connections });
      const [oldest] = this.#counts.keys();
      if (this.#counts.size > limits.deletedCountsKept && oldest !== undefined) this.#counts.delete(oldest);
    }
  }

  /** @returns with those of the table, each endpoint of a frontend once */
  with(present: Iterable<EndpointCount>): readonly EndpointCount[] {
    const all = new Map(this.#counts);
    for (const one of present) {
      const id = `${one.frontend} ${one.endpoint}`;
      const { frontend, endpoint } = one;
      all.set(id, { frontend, endpoint, connections: one.connections + (all.get(id)?.connections ?? 0) });
    }
    return [...all.values()];
  }
}

/** New connections to a frontend. */
export interface FrontendConnections {
  /** `10.96.0.10 . tcp . 80` */
  readonly frontend: string;
  readonly connections: number;
  /** Those with most connections first, by `10.244.1.5 . 8080`. */
  readonly endpoints: readonly { readonly endpoint: string; readonly connections: number }[];
}

/** The frontends with most connections. @param most how many are told */
export function mostConnections(
  counts: readonly EndpointCount[],
  most: number = limits.countedFrontendsShown,
): readonly FrontendConnections[] {
  const frontends = [...Map.groupBy(counts, ({ frontend }) => frontend)].map(([frontend, own]) => ({
    frontend,
    connections: own.reduce((sum, { connections }) => sum + connections, 0),
    endpoints: own
      .map(({ endpoint, connections }) => ({ endpoint, connections }))
      .toSorted((a, b) => b.connections - a.connections || compareText(a.endpoint, b.endpoint))
      .slice(0, limits.countedEndpointsShown),
  }));
  return frontends
    .toSorted((a, b) => b.connections - a.connections || compareText(a.frontend, b.frontend))
    .slice(0, most);
}
