import { familySuffix } from '../rules/nft-family.ts';
import { anyAddress, frontendKey, type NftFrontend, readFrontend } from '../nftables/frontend.ts';
import type { NftState } from '../nftables/state.ts';
import { localhostAddress, localhostListenerAddress, type NftTableOptions, tableOptions } from '../nftables/table.ts';
import { perObject } from '../per-object.ts';
import { type Address, isLoopback } from '../rules/address.ts';
import { type Cidr, isInCidr, networkOf } from '../rules/cidr.ts';
import type { TraceFlow, Trail } from '../packet/flow.ts';
import type { Packet } from '../packet/packet.ts';
import { type Choice, hitOf, type List, type Lists, listsOf } from './nft-lists.ts';

type Kind = 'pods' | 'keep' | 'node' | 'cidr';

/** The settings of a state, read for many packets. */
interface Settings extends Readonly<Record<Kind, readonly Cidr[]>> {
  readonly table: NftTableOptions;
}

const settingsOf = perObject((settings: readonly string[]): Settings => {
  const of = (kind: Kind): readonly Cidr[] =>
    settings.flatMap((one) => (one.startsWith(`${kind} `) ? (networkOf(one.slice(kind.length + 1)) ?? []) : []));
  return { table: tableOptions(settings), pods: of('pods'), keep: of('keep'), node: of('node'), cidr: of('cidr') };
});

/** Addresses that frontends have together. */
interface SharedAddresses {
  readonly clusterIPs: ReadonlySet<string>;
  /** Endpoints on this node. */
  readonly here: ReadonlySet<string>;
}

function sharedOf(frontends: NftState['frontends']): SharedAddresses {
  const [clusterIPs, here] = [new Set<string>(), new Set<string>()];
  for (const [key, lines] of frontends) {
    const one = readFrontend(key, lines);
    if (one.isClusterIP) clusterIPs.add(one.address);
    for (const address of one.here ?? []) here.add(address);
  }
  return { clusterIPs, here };
}

/** What is read once for all packets through a table. */
interface KnownTable {
  readonly settings: Settings;
  readonly shared: SharedAddresses;
  /** The frontends that packets met. */
  readonly met: Map<string, NftFrontend>;
  /** Of frontends that serve: all packets to one have the same choice. */
  readonly lists: Map<string, Lists>;
}

const knownOf = perObject(
  ({ settings, frontends }: NftState): KnownTable => ({
    settings: settingsOf(settings),
    shared: sharedOf(frontends),
    met: new Map(),
    lists: new Map(),
  }),
);

/** A set of networks as it was parsed for its frontend. */
const rangesOf = perObject((ranges: readonly string[]): readonly Cidr[] =>
  ranges.flatMap((one) => networkOf(one) ?? []),
);

/**
 * The table of mode nftables, for one packet: what its base chains do, step by step. `printNftTable` has the rules; they are equal on every
 * node, so that nothing of them is read here.
 */
export class NftTable {
  readonly #frontends: NftState['frontends'];
  readonly #known: KnownTable;
  readonly #shared: SharedAddresses;
  readonly #settings: Settings;
  readonly #packet: Packet;
  /** What the connection is meant for. */
  readonly #meant: Address;
  readonly #isLocal: (address: Address) => boolean;
  readonly #n: '4' | '6';

  /** @param meant the destination of the packet */
  constructor(state: NftState, packet: Packet, meant: Address, isLocal: (address: Address) => boolean) {
    this.#known = knownOf(state);
    this.#frontends = state.frontends;
    this.#shared = this.#known.shared;
    this.#settings = this.#known.settings;
    this.#packet = packet;
    this.#meant = meant;
    this.#isLocal = isLocal;
    this.#n = familySuffix[packet.family];
  }

  /**
   * Chains `ranges` and `services`, before routing and in the output of the node.
   * @returns the flows that leave them; those without a verdict continue to rules of others
   */
  translated(flow: TraceFlow): readonly TraceFlow[] {
    if (this.#isForeignToLoopback(flow))
      return [this.#end(flow, 'drop', 'pre-dnat', 'ip daddr 127.0.0.0/8 iifname != "lo" drop')];
    const own = this.#frontendAt(flow);
    const open = this.#ranges(flow, own);
    return open.verdict ? [open] : this.#services(open, own);
  }

  /** Chain `unserved`, in filter. What was translated is served. */
  unserved(flow: TraceFlow): TraceFlow {
    if (flow.translated) return flow;
    if (this.#settings.table.localhost && isLoopback(flow.destination)) return this.#refuseLocalhost(flow);
    const own = this.#refuse(flow, this.#frontendAt(flow));
    if (own) return own;
    if (this.#hasNodePorts(flow.destination)) return this.#refuse(flow, this.#nodePortAt(flow)) ?? flow;
    const { text } = flow.destination;
    if (this.#shared.clusterIPs.has(text)) return this.#end(flow, 'reject', 'cluster', text);
    const unallocated = this.#settings.cidr.find((network) => isInCidr(flow.destination, network));
    return unallocated ? this.#end(flow, 'drop', 'cidr', unallocated.text) : flow;
  }

  /** Chain `ranges`: before translation, and never for a node port, whose address is another one. */
  #ranges(flow: TraceFlow, frontend: NftFrontend | undefined): TraceFlow {
    if (!frontend || frontend.ranges.length === 0) return flow;
    const allowed = rangesOf(frontend.ranges).find((network) => isInCidr(flow.source, network));
    if (allowed) return this.#hit(flow, 'allow', `${frontend.key} . ${allowed.text}`);
    return this.#end(flow, 'drop', 'allow', `no ${frontend.key} . ${flow.source.text}`);
  }

  /** Chain `services`. Node ports are looked up at addresses of this node, where no other frontend has the address. */
  #services(flow: TraceFlow, own: NftFrontend | undefined): readonly TraceFlow[] {
    const found = own && this.#serve(flow, own);
    if (found) return found;
    if (this.#servesLocalhost() && flow.destination.text === localhostAddress) return this.#localhost(flow) ?? [flow];
    if (this.#isListenedOn(flow.destination)) return (this.#isFromNode() && this.#listener(flow)) || [flow];
    const nodePort = this.#hasNodePorts(flow.destination) ? this.#nodePortAt(flow) : undefined;
    return (nodePort && this.#serve(flow, nodePort)) ?? [flow];
  }

  /** Chain `localhost`: with policy Local the endpoints of the node alone. @returns undefined if no element matches */
  #localhost(flow: TraceFlow): readonly TraceFlow[] | undefined {
    const nodePort = this.#nodePortAt(flow);
    if (!nodePort || nodePort.endpoints.length === 0) return undefined;
    const { all, ofNode } = this.#listsOf(nodePort);
    if (nodePort.outside !== 'local') return this.#choose(flow, nodePort, all);
    if (nodePort.local.length > 0) return this.#choose(flow, nodePort, ofNode);
    return [this.#hit(flow, 'out', `${nodePort.key} : accept`)];
  }

  /**
   * The listener of `sluiced` on ::1: it accepts a connection, and opens one to an endpoint, from an address of the node.
   * @returns undefined without an endpoint: the kernel refuses it, unless another program listens there
   */
  #listener(flow: TraceFlow): readonly TraceFlow[] | undefined {
    const nodePort = this.#nodePortAt(flow);
    if (!nodePort) return undefined;
    const isLocal = nodePort.outside === 'local';
    const { all, ofNode } = this.#listsOf(nodePort);
    const { choices } = isLocal ? ofNode : all;
    const list = { hit: hitOf('listener6', `${nodePort.key} : sluiced accepts it on ::1`), choices };
    return choices.length === 0 ? undefined : this.#choose(flow, nodePort, list);
  }

  #isListenedOn({ text }: Address): boolean {
    const { table } = this.#settings;
    return table.localhostListener === true && this.#packet.protocol === 'tcp' && text === localhostListenerAddress;
  }

  /** Chain `unserved-localhost`: every node port, with endpoints or without, and whatever the table does without. */
  #refuseLocalhost(flow: TraceFlow): TraceFlow {
    const isOtherAddress = this.#servesLocalhost() && flow.destination.text !== localhostAddress;
    if (this.#isListenedOn(flow.destination)) return flow;
    const nodePort = this.#nodePortAt(flow);
    if (nodePort?.outside === undefined || (isOtherAddress && this.#packet.protocol === 'tcp')) return flow;
    return this.#end(flow, 'reject', nodePort.outside === 'cluster' ? 'always' : 'near', nodePort.key);
  }

  /** The guard of `route_localnet`, in `pre-dnat`. */
  #isForeignToLoopback({ destination }: TraceFlow): boolean {
    return this.#servesLocalhost() && !this.#isFromNode() && isLoopback(destination);
  }

  /** The kernel itself keeps others from ::1 (`ip6_rcv_core`), and from 127.0.0.0/8 without `route_localnet`. */
  #isFromNode(): boolean {
    return (this.#packet.in ?? 'lo') === 'lo';
  }

  #servesLocalhost(): boolean {
    return this.#settings.table.localhost === 'served' && this.#packet.family === 'ipv4';
  }

  /** @returns undefined if no element matches */
  #serve(flow: TraceFlow, frontend: NftFrontend): readonly TraceFlow[] | undefined {
    const { key, outside, endpoints, local } = frontend;
    const { all, ofNode } = this.#listsOf(frontend);
    if (outside === 'local' && this.#isOutside(flow) && !this.#isLocal(flow.source)) {
      if (local.length > 0) return this.#choose(flow, frontend, ofNode);
      if (endpoints.length > 0) return [this.#hit(flow, 'out', `${key} : accept`)];
    }
    return endpoints.length === 0 ? undefined : this.#choose(flow, frontend, all);
  }

  /**
   * The chain of a list: one flow per endpoint; with session affinity a known client keeps its own. By hash or in turn the shares are those
   * over many clients.
   */
  #choose(flow: TraceFlow, frontend: NftFrontend, { hit, choices }: List): readonly TraceFlow[] {
    const { remembers } = this.#packet;
    const hasAffinity = remembers !== undefined && frontend.affinitySeconds !== undefined;
    const kept = hasAffinity ? choices.find(({ endpoint }) => endpoint.text === remembers) : undefined;
    const before: Trail = { hit, before: flow.trail };
    return kept ? [translate(flow, kept, 1, before)] : choices.map((one) => translate(flow, one, one.share, before));
  }

  /** Chain `masquerade`: by the address and port that the connection was meant for. */
  masqueraded(flow: TraceFlow): TraceFlow {
    const { source, destination, translated } = flow;
    if (!translated) return flow;
    if (source.text === destination.text && this.#shared.here.has(source.text))
      return this.#masquerade(flow, 'loop', `${source.text} . ${destination.text}`);
    const { protocol, port } = this.#packet;
    const meant = this.#meant;
    if (this.#isListenedOn(meant)) return this.#masquerade(flow, 'listener', 'sluiced connects from the node');
    if (this.#shared.clusterIPs.has(meant.text)) {
      const why = this.#clusterMasquerade(flow);
      return why === undefined ? flow : this.#masquerade(flow, ...why);
    }
    const own = this.#frontend(frontendKey({ address: meant.text, protocol, port }));
    const nodePort = this.#isInNode(meant) ? this.#nodePortAt({ port }) : undefined;
    for (const one of [own, nodePort]) {
      const set = one && this.#policyMasquerade(flow, one);
      if (one && set !== undefined) return this.#masquerade(flow, set, one.key);
    }
    return flow;
  }

  #masquerade(flow: TraceFlow, set: string, element: string): TraceFlow {
    return { ...flow, masquerade: true, trail: this.#trail(flow, set, element) };
  }

  /** Chain `masquerade-cluster`. @returns the set or chain that decides, and its element; undefined: the source keeps its address */
  #clusterMasquerade({ source }: TraceFlow): readonly [string, string] | undefined {
    const { table, keep } = this.#settings;
    if (table.masqueradeAll) return ['masquerade-cluster', 'masquerade fully-random'];
    if (table.detector !== 'address')
      return this.#isOfPodInterface() ? undefined : ['masquerade-cluster', `iifname != "${table.detector.interface}"`];
    return keep.some((network) => isInCidr(source, network)) ? undefined : ['keep', `no ${source.text}`];
  }

  #policyMasquerade(flow: TraceFlow, { outside }: NftFrontend): string | undefined {
    if (outside === 'cluster') return 'always';
    return outside === 'local' && this.#isOutside(flow) && this.#isLocal(flow.source) ? 'near' : undefined;
  }

  /** Whether a packet does not come from a pod. */
  #isOutside({ source }: TraceFlow): boolean {
    const { table, pods } = this.#settings;
    return table.detector === 'address'
      ? !pods.some((network) => isInCidr(source, network))
      : !this.#isOfPodInterface();
  }

  /** Postrouting knows the incoming interface, too (Linux 5.7). */
  #isOfPodInterface(): boolean {
    const { detector } = this.#settings.table;
    const name = this.#packet.in ?? '';
    if (detector === 'address') return false;
    const { interface: own } = detector;
    return own.endsWith('*') ? name.startsWith(own.slice(0, -1)) : name === own;
  }

  #refuse(flow: TraceFlow, frontend: NftFrontend | undefined): TraceFlow | undefined {
    if (!frontend?.none) return undefined;
    const { key, none } = frontend;
    return none === 'drop'
      ? this.#end(flow, 'drop', 'none', `${key} : drop`)
      : this.#end(flow, 'reject', 'none', `${key} : goto refuse`);
  }

  /** Whether the node has node ports at an address: one of its own in `node`, never loopback. */
  #hasNodePorts(address: Address): boolean {
    return this.#isInNode(address) && !isLoopback(address) && this.#isLocal(address);
  }

  #isInNode(address: Address): boolean {
    return this.#settings.node.some((network) => isInCidr(address, network));
  }

  #frontendAt({ destination, port }: TraceFlow): NftFrontend | undefined {
    return this.#frontend(frontendKey({ address: destination.text, protocol: this.#packet.protocol, port }));
  }

  #nodePortAt({ port }: Pick<TraceFlow, 'port'>): NftFrontend | undefined {
    const { family, protocol } = this.#packet;
    return this.#frontend(frontendKey({ address: anyAddress[family], protocol, port }));
  }

  #frontend(key: string): NftFrontend | undefined {
    const { met } = this.#known;
    const known = met.get(key);
    if (known) return known;
    const lines = this.#frontends.get(key);
    if (!lines) return undefined;
    const frontend = readFrontend(key, lines);
    met.set(key, frontend);
    return frontend;
  }

  #listsOf(frontend: NftFrontend): Lists {
    const { lists } = this.#known;
    const known = lists.get(frontend.key);
    if (known) return known;
    const read = listsOf(frontend);
    lists.set(frontend.key, read);
    return read;
  }

  #end(flow: TraceFlow, verdict: 'drop' | 'reject', set: string, element: string): TraceFlow {
    return { ...flow, verdict, trail: this.#trail(flow, set, element) };
  }

  #hit(flow: TraceFlow, set: string, rule: string): TraceFlow {
    return { ...flow, trail: this.#trail(flow, set, rule) };
  }

  #trail({ trail: before }: TraceFlow, set: string, rule: string): Trail {
    return { hit: hitOf(`${set}${this.#n}`, rule), before };
  }
}

/** A flow to an endpoint. @param before what led to the list */
function translate(flow: TraceFlow, { endpoint, hit }: Choice, share: number, before: Trail): TraceFlow {
  const { destination, port } = endpoint;
  return {
    ...flow,
    destination,
    port,
    printed: endpoint,
    translated: true,
    probability: flow.probability * share,
    trail: { hit, before },
  };
}
