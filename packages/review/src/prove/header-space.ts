import {
  type Cidr,
  type Family,
  getOrInsert,
  isInCidr,
  isNodePort,
  modeFacts,
  networkOf,
  type NftFrontend,
  parseAddress,
  readFrontend,
} from '@sluice/netfilter';
import { factOf, nodeOf, nodesOfProfile } from '../bundle/node.ts';
import type { BundleView } from '../bundle/view.ts';
import type { FlowRow } from '../flows/flows.ts';
import { nftStateOf } from '../flows/nft-state.ts';
import { addressAt, numberOf, sizeOf } from '../flows/numbers.ts';

/** In mode nftables: the elements that divide packets. Within what they divide, a node treats all packets alike. */
export interface HeaderSpace {
  /** Frontends, ClusterIPs, and endpoints as clients of their own Services. */
  readonly keys: number;
  /** Networks of sources and destinations. */
  readonly intervals: number;
  /**
   * Keys and intervals that no traced packet met, as `cluster 10.96.0.10` or `allow 203.0.113.9 . tcp . 80 . 198.51.100.0/25`. Empty in a
   * complete proof; a node without a known address has node ports that nothing can meet.
   */
  readonly unjudged: readonly string[];
}

/** The packets that were traced through the table of one node. */
export class TracedPackets {
  /** Sources by frontend: `10.96.0.10 . tcp . 80`, and `node port . tcp . 30080`. */
  readonly sources = new Map<string, Set<string>>();
  readonly destinations = new Set<string>();
  /** ClusterIPs at a port that no Service has. */
  readonly otherPorts = new Set<string>();
  #last: { readonly row: FlowRow['destination']; readonly sources: Set<string> } | undefined;

  add({ destination, packet }: Pick<FlowRow, 'destination' | 'packet'>): void {
    // Rows come by destination.
    if (this.#last?.row !== destination)
      this.#last = { row: destination, sources: this.#sourcesOf(destination, packet) };
    this.#last.sources.add(packet.source);
  }

  #sourcesOf({ kind }: FlowRow['destination'], packet: FlowRow['packet']): Set<string> {
    this.destinations.add(packet.destination);
    if (kind === 'elsewhere') this.otherPorts.add(packet.destination);
    const key = keyOf(kind === 'node-port' ? nodePort : packet.destination, packet);
    return getOrInsert(this.sources, key, () => new Set());
  }
}

const nodePort = 'node port';

const keyOf = (address: string, { protocol, port }: Pick<NftFrontend, 'protocol' | 'port'>): string =>
  `${address} . ${protocol} . ${port}`;

/** The node whose table a header space describes; undefined in other modes. */
export function headerSpaceNode(view: BundleView, profile: string): string | undefined {
  const { mode } = view.profiles.get(profile) ?? {};
  return mode === undefined || modeFacts[mode].hasTables ? undefined : nodesOfProfile(view, profile)[0];
}

/**
 * The header space of a node's table, and what of it was judged.
 * @param name from `headerSpaceNode`
 * @param traced the packets through the table of this node
 */
export function headerSpaceOf(view: BundleView, name: string, family: Family, traced: TracedPackets): HeaderSpace {
  const node = nodeOf(view, name);
  const { settings, frontends } = nftStateOf(view, node, view.index(node.file.profile, family).paths);
  const own = [...frontends].map(([key, lines]) => readFrontend(key, lines)).filter((one) => one.family === family);
  const networks = (kind: string): readonly string[] =>
    settings.flatMap((one) => {
      const isOwn = one.startsWith(`${kind} `) && one.includes(':') === (family === 'ipv6');
      return isOwn ? [one] : [];
    });
  const clusterIPs = [...new Set(own.flatMap(({ isClusterIP, address }) => (isClusterIP ? [address] : [])))];
  const clients = new Set(own.flatMap(clientsOf));
  const isAtNode = factOf(node, family, 'address') !== undefined || !own.some(isNodePort);
  const sources = [...networks('pods'), ...networks('keep')];
  const [nodes, cidrs] = [networks('node'), networks('cidr')];
  const ranges = own.reduce((sum, one) => sum + one.ranges.length, 0);
  return {
    keys: own.length + clusterIPs.length + clients.size,
    intervals: sources.length + nodes.length + cidrs.length + ranges,
    unjudged: [
      ...clusterIPs.flatMap((address) => (traced.otherPorts.has(address) ? [] : [`cluster ${address}`])),
      ...missedAtFrontends(own, sources, traced),
      ...new Cells(cidrs).missedBy(traced.destinations),
      ...(isAtNode ? [] : nodes),
    ],
  };
}

const clientsOf = ({ endpoints, local }: NftFrontend): readonly string[] =>
  [...endpoints, ...local].map((endpoint) => endpoint.slice(0, endpoint.indexOf(' ')));

/**
 * What packets to each frontend did not meet: the frontend itself, endpoints of it as clients, networks of sources.
 * @param networks `pods 10.244.0.0/16`
 */
function missedAtFrontends(
  frontends: readonly NftFrontend[],
  networks: readonly string[],
  traced: TracedPackets,
): readonly string[] {
  const missed = new Set<string>();
  // Nearly all frontends have no ranges of their own.
  const common = new Cells(networks);
  for (const frontend of frontends) {
    const { key, address, ranges } = frontend;
    const sources = traced.sources.get(keyOf(isNodePort(frontend) ? nodePort : address, frontend));
    if (!sources) {
      missed.add(key);
      continue;
    }
    for (const client of clientsOf(frontend)) if (!sources.has(client)) missed.add(`loop ${client}`);
    const own = ranges.map((range) => `allow ${key} . ${range}`);
    const cells = own.length === 0 ? common : new Cells([...networks, ...own]);
    for (const interval of cells.missedBy(sources)) missed.add(interval);
  }
  return [...missed];
}

/**
 * The parts into which intervals divide all addresses: addresses of one part are in the same ones. Each part begins with the first
 * address of an interval or with the one behind its last, so that these stand for all addresses.
 */
class Cells {
  readonly #networks: readonly Cidr[];
  readonly #ends: readonly { readonly interval: string; readonly part: string }[];
  readonly #parts = new Map<string, string>();

  /** @param intervals `cidr 10.96.0.0/12`: each ends with its network */
  constructor(intervals: readonly string[]) {
    const read = intervals.flatMap((interval) => {
      const network = networkOf(interval.slice(interval.lastIndexOf(' ') + 1));
      return network ? [{ interval, network }] : [];
    });
    this.#networks = read.map(({ network }) => network);
    this.#ends = read.flatMap(({ interval, network }) =>
      endsOf(network).map((address) => ({ interval, part: this.#partOf(address) })),
    );
  }

  /** The intervals at whose ends there is a part without any of the addresses, each once. */
  missedBy(addresses: Iterable<string>): readonly string[] {
    const missing = new Set(this.#ends.map(({ part }) => part));
    for (const address of addresses) {
      // Mostly after the first addresses, which are those of wide networks.
      if (missing.size === 0) return [];
      missing.delete(this.#partOf(address));
    }
    return [...new Set(this.#ends.flatMap(({ interval, part }) => (missing.has(part) ? [interval] : [])))];
  }

  #partOf(text: string): string {
    const known = this.#parts.get(text);
    if (known !== undefined) return known;
    const address = parseAddress(text);
    const part = this.#networks.map((network) => (address && isInCidr(address, network) ? '1' : '0')).join('');
    this.#parts.set(text, part);
    return part;
  }
}

/** The first address of a network, and the one behind its last. */
function endsOf(network: Cidr): readonly string[] {
  const [first, end] = [numberOf(network), numberOf(network) + sizeOf(network)];
  const isLast = end >> BigInt(network.words.length * 16) !== 0n;
  return [first, ...(isLast ? [] : [end])].map((at) => addressAt(at, network.family));
}
