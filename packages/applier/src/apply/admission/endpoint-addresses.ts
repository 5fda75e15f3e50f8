import {
  addressesOfChains,
  addressesOfFrontends,
  addressesOfServers,
  type AddressReader,
  canonicalAddress,
  differing,
  embeddedIn,
  forbiddenEndpoint,
  inOnePiece,
  neighbourhoodOf,
  type Problem,
  refusal,
  withEmbedded,
} from '@sluice/netfilter';
import { familyNames, type NodeState, tableOf } from '../../ports/node-state.ts';

/** How many endpoints a refusal names. */
const namedMax = 10;

/**
 * Finds endpoints at addresses that no endpoint may have, whatever the signature: those that Kubernetes refuses for endpoints
 * (`forbiddenEndpoint`), and ClusterIPs of this bundle, which would lead packets of one Service to another. External IPs and addresses of
 * load balancers are allowed: they are often addresses of nodes, and so of endpoints in the host network.
 *
 * Compares each table with the last good one, so that a bundle costs only its changes.
 */
export class EndpointAddresses {
  readonly #chains = new SeenLines(addressesOfChains);
  readonly #frontends = new SeenLines(addressesOfFrontends);

  /** @returns at most one problem, which names the first few endpoints */
  check(state: NodeState): readonly Problem[] {
    const bad = [
      ...this.#chains.take(familyNames.map((family) => tableOf(state, family, 'nat').chains)),
      ...badServers(state),
      ...this.#frontends.take([state.nft?.frontends ?? nothing]),
    ];
    if (bad.length === 0) return [];
    const named = bad.slice(0, namedMax).join(', ');
    const more = bad.length > namedMax ? `, ${bad.length - namedMax} more` : '';
    const hint = 'Remove these endpoints, or give them the addresses of pods';
    return [refusal('ADDRESS_FORBIDDEN', `Cannot send packets to ${named}${more}`, hint)];
  }
}

/** An address of lines, and by how many more lines have it. */
interface Counted {
  readonly address: string;
  readonly by: number;
}

const canonical = (address: string): string =>
  address.includes(':') ? (canonicalAddress(address) ?? address) : address;

/** IPv4 addresses as numbers: a substring of a rule would keep the whole rule in memory. */
type Key = number | string;

const codeOf = { dot: 0x2e, zero: 0x30, colon: 0x3a } as const;

/** Digit by digit: it is asked for each endpoint of a first load. */
function keyOf(address: string): Key {
  let sum = 0;
  let part = 0;
  for (let at = 0; at < address.length; at++) {
    const character = address.charCodeAt(at);
    if (character === codeOf.colon) return inOnePiece(canonical(address));
    if (character === codeOf.dot) {
      sum = sum * 256 + part;
      part = 0;
    } else part = part * 10 + character - codeOf.zero;
  }
  return sum * 256 + part;
}

/** By the name of their chain, or by the key of their frontend. */
type Lines = ReadonlyMap<string, readonly string[]>;

const nothing: Lines = new Map();

class SeenLines {
  readonly #reader: AddressReader;
  /** Of each table: an endpoint of one family may lead to a ClusterIP of the other. */
  #tables: readonly Lines[] = [];
  /** ClusterIPs, with the number of lines for each. */
  readonly #clusterIPs = new Map<Key, number>();
  /** Of endpoints, also of those that left: few, where there are 50,000 endpoints. */
  readonly #neighbourhoods = new Set<string>();

  constructor(reader: AddressReader) {
    this.#reader = reader;
  }

  /** @param tables always as many, in one order */
  take(tables: readonly Lines[]): readonly string[] {
    const seen = tables.map((lines, at) => {
      const before = this.#tables[at] ?? nothing;
      return { before, lines, changed: before === lines ? [] : differing(before, lines) };
    });
    this.#tables = tables;
    const counts = new Map<Key, Counted>();
    const count = (name: string, of: readonly string[] | undefined, by: number): void => {
      for (const address of of ? this.#reader.clusterIPs(name, of) : []) {
        const key = keyOf(address);
        counts.set(key, { address, by: (counts.get(key)?.by ?? 0) + by });
      }
    };
    for (const { before, lines, changed } of seen)
      for (const name of changed) {
        count(name, before.get(name), -1);
        count(name, lines.get(name), 1);
      }
    // A new ClusterIP may be the address of an endpoint in unchanged lines.
    const isNearEndpoint = this.#add(counts).some((address) => this.#neighbourhoods.has(neighbourhoodOf(address)));
    const bad = new Set<string>();
    for (const { lines, changed } of seen)
      for (const name of isNearEndpoint ? lines.keys() : changed)
        for (const address of this.#badIn(name, lines.get(name))) bad.add(address);
    // Refused lines must not be compared with: the same bundle must be refused again.
    if (bad.size > 0) this.#forget();
    return [...bad];
  }

  #forget(): void {
    this.#tables = [];
    this.#clusterIPs.clear();
    this.#neighbourhoods.clear();
  }

  /**
   * Adds to the numbers of lines: all changes of a bundle at once, since a chain that gets another name takes its rules along.
   * @returns the addresses that are ClusterIPs now and were none before
   */
  #add(counts: ReadonlyMap<Key, Counted>): readonly string[] {
    const added: string[] = [];
    for (const [key, { address, by }] of counts) {
      const old = this.#clusterIPs.get(key) ?? 0;
      if (old + by > 0) this.#clusterIPs.set(key, old + by);
      else this.#clusterIPs.delete(key);
      if (old === 0 && by > 0) added.push(canonical(address));
    }
    return added;
  }

  #badIn(name: string, lines: readonly string[] | undefined): readonly string[] {
    const endpoints = lines ? this.#reader.endpoints(name, lines) : [];
    for (const endpoint of endpoints)
      for (const address of withEmbedded(endpoint)) {
        const own = neighbourhoodOf(canonical(address));
        if (!this.#neighbourhoods.has(own)) this.#neighbourhoods.add(inOnePiece(own));
      }
    return badAmong(endpoints, this.#clusterIPs);
  }
}

function badAmong(endpoints: readonly string[], clusterIPs: { has(key: Key): boolean }): readonly string[] {
  return endpoints.flatMap((address) => {
    const why = forbiddenEndpoint(address) ?? whyClusterIP(address, clusterIPs);
    return why === undefined ? [] : [`${address} (${why})`];
  });
}

/** Translators of the node or of its network may lead IPv6 addresses to ClusterIPs of IPv4. */
function whyClusterIP(address: string, clusterIPs: { has(key: Key): boolean }): string | undefined {
  if (clusterIPs.has(keyOf(address))) return 'it is the ClusterIP of a Service';
  const found = embeddedIn(address).find(({ embedded }) => clusterIPs.has(keyOf(embedded.text)));
  return found && `it leads to ${found.embedded.text} (${found.by}), the ClusterIP of a Service`;
}

function badServers({ ipvs }: NodeState): readonly string[] {
  if (!ipvs) return [];
  const clusterIPs = new Set(addressesOfServers.clusterIPs(ipvs).map(keyOf));
  return [...new Set(badAmong(addressesOfServers.endpoints(ipvs), clusterIPs))];
}
