import { endpointIds, listNames, slotOf } from '../nftables/elements.ts';
import { familySuffix } from '../nftables/family.ts';
import { anyAddress, frontendKey, type NftFrontend, printNftEndpoint, readFrontend } from '../nftables/frontend.ts';
import { slotsOf } from '../nftables/slots.ts';
import type { NftState } from '../nftables/state.ts';
import { type NftTableOptions, tableOptions } from '../nftables/table.ts';
import { perObject } from '../per-object.ts';
import { type Address, isLoopback, parseAddress } from '../rules/address.ts';
import { type Cidr, isInCidr, networkOf } from '../rules/cidr.ts';
import type { HookName, TraceFlow, Trail } from './flow.ts';
import type { Packet } from './packet.ts';

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

const sharedOf = perObject((frontends: NftState['frontends']): SharedAddresses => {
  const [clusterIPs, here] = [new Set<string>(), new Set<string>()];
  for (const [key, lines] of frontends) {
    const one = readFrontend(key, lines);
    if (one.isClusterIP) clusterIPs.add(one.address);
    for (const address of one.here ?? []) here.add(address);
  }
  return { clusterIPs, here };
});

/** The first slot of each endpoint, and how many it has. */
function placesOf(slots: readonly string[]): ReadonlyMap<string, { first: number; count: number }> {
  const places = new Map<string, { first: number; count: number }>();
  for (const [slot, endpoint] of slots.entries()) {
    const place = places.get(endpoint);
    if (place) place.count++;
    else places.set(endpoint, { first: slot, count: 1 });
  }
  return places;
}

/** What a list of a frontend does to packets: one of these. */
interface Choice {
  readonly destination: Address;
  readonly port: number;
  /** Of new clients. */
  readonly share: number;
  /** `10.244.1.5:8080`: what session affinity remembers. */
  readonly printed: string;
  /** The map that decides, without the family, and its element. */
  readonly map: string;
  readonly element: string;
}

/** The lists of a frontend, and the names of their chains. */
interface Lists extends ReturnType<typeof listNames> {
  readonly all: readonly Choice[];
  readonly ofNode: readonly Choice[];
}

/** Read once for all packets to a frontend: all have the same choice. */
const listsOf = perObject(
  (frontend: NftFrontend): Lists => ({
    ...listNames(frontend, 'a'),
    all: choicesIn(frontend, false),
    ofNode: choicesIn(frontend, true),
  }),
);

/** One choice per endpoint that has slots, its share by their number; the first of them is shown. */
function choicesIn(frontend: NftFrontend, isLocal: boolean): readonly Choice[] {
  const { key, address, protocol, port: from, affinitySeconds } = frontend;
  const list = isLocal ? frontend.local : frontend.endpoints;
  const slots = slotsOf(frontend, list);
  const ids = affinitySeconds === undefined ? undefined : endpointIds(list);
  const placed = placesOf(slots);
  return list.flatMap((endpoint) => {
    const end = endpoint.indexOf(' ');
    const destination = parseAddress(endpoint.slice(0, end));
    const place = placed.get(endpoint);
    if (!destination || !place) return [];
    const slot = slotOf(place.first, 'a', isLocal);
    return [
      {
        destination,
        port: Number(endpoint.slice(endpoint.lastIndexOf(' ') + 1)),
        share: place.count / slots.length,
        printed: printNftEndpoint(endpoint),
        ...(ids
          ? { map: isLocal ? 'lid' : 'id', element: `${key} . ${ids.get(endpoint)} : ${endpoint}` }
          : { map: protocol, element: `${address} . ${from} . ${slot} : ${endpoint}` }),
      },
    ];
  });
}

/** The frontends that packets met, read once for many packets. */
const metIn = perObject((_frontends: NftState['frontends']) => new Map<string, NftFrontend>());

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
  readonly #met: Map<string, NftFrontend>;
  readonly #settings: Settings;
  readonly #packet: Packet;
  /** What the connection is meant for. */
  readonly #meant: Address;
  readonly #isLocal: (address: Address) => boolean;
  readonly #n: '4' | '6';

  /** @param meant the destination of the packet */
  constructor(
    { frontends, settings }: NftState,
    packet: Packet,
    meant: Address,
    isLocal: (address: Address) => boolean,
  ) {
    this.#frontends = frontends;
    this.#met = metIn(frontends);
    this.#settings = settingsOf(settings);
    this.#packet = packet;
    this.#meant = meant;
    this.#isLocal = isLocal;
    this.#n = familySuffix[packet.family];
  }

  /** @returns the flows that leave the base chains of a hook; those without a verdict continue to rules of others */
  pass(flow: TraceFlow, hook: HookName): readonly TraceFlow[] {
    if (hook === 'PREROUTING' || hook === 'OUTPUT') {
      const open = this.#ranges(flow);
      return open.verdict ? [open] : this.#services(open);
    }
    return [hook === 'POSTROUTING' ? this.#masquerade(flow) : flow];
  }

  /** Chain `unserved`, in filter. What was translated is served. */
  unserved(flow: TraceFlow): TraceFlow {
    if (flow.translated) return flow;
    const own = this.#refuse(flow, this.#frontendAt(flow));
    if (own) return own;
    if (this.#hasNodePorts(flow.destination)) return this.#refuse(flow, this.#nodePortAt(flow)) ?? flow;
    const { text } = flow.destination;
    if (sharedOf(this.#frontends).clusterIPs.has(text)) return this.#end(flow, 'reject', 'cluster', text);
    const unallocated = this.#settings.cidr.find((network) => isInCidr(flow.destination, network));
    return unallocated ? this.#end(flow, 'drop', 'cidr', unallocated.text) : flow;
  }

  /** Chain `ranges`: before translation, and never for a node port, whose address is another one. */
  #ranges(flow: TraceFlow): TraceFlow {
    const frontend = this.#frontendAt(flow);
    if (!frontend || frontend.ranges.length === 0) return flow;
    const allowed = rangesOf(frontend.ranges).find((network) => isInCidr(flow.source, network));
    if (allowed) return this.#hit(flow, 'allow', `${frontend.key} . ${allowed.text}`);
    return this.#end(flow, 'drop', 'allow', `no ${frontend.key} . ${flow.source.text}`);
  }

  /** Chain `services`. Node ports are looked up at addresses of this node, where no other frontend has the address. */
  #services(flow: TraceFlow): readonly TraceFlow[] {
    const own = this.#frontendAt(flow);
    const found = own && this.#serve(flow, own);
    if (found) return found;
    const nodePort = this.#hasNodePorts(flow.destination) ? this.#nodePortAt(flow) : undefined;
    return (nodePort && this.#serve(flow, nodePort)) ?? [flow];
  }

  /** @returns undefined if no element matches */
  #serve(flow: TraceFlow, frontend: NftFrontend): readonly TraceFlow[] | undefined {
    const { key, outside, endpoints, local } = frontend;
    const { list, localList } = listsOf(frontend);
    if (outside === 'local' && this.#isOutside(flow) && !this.#isLocal(flow.source)) {
      if (local.length > 0) return this.#choose(this.#hit(flow, 'out', `${key} : goto ${localList}`), frontend, true);
      if (endpoints.length > 0) return [this.#hit(flow, 'out', `${key} : accept`)];
    }
    if (endpoints.length === 0) return undefined;
    return this.#choose(this.#hit(flow, 'svc', `${key} : goto ${list}`), frontend, false);
  }

  /**
   * The chain of a list: one flow per endpoint; with session affinity a known client keeps its own. By hash or in turn the shares are those
   * over many clients.
   */
  #choose(flow: TraceFlow, frontend: NftFrontend, isLocal: boolean): readonly TraceFlow[] {
    const { all, ofNode } = listsOf(frontend);
    const choices = isLocal ? ofNode : all;
    const { remembers } = this.#packet;
    const hasAffinity = remembers !== undefined && frontend.affinitySeconds !== undefined;
    const kept = hasAffinity ? choices.find(({ printed }) => printed === remembers) : undefined;
    return kept ? [this.#translate(flow, kept, 1)] : choices.map((one) => this.#translate(flow, one, one.share));
  }

  #translate(flow: TraceFlow, { destination, port, map, element }: Choice, share: number): TraceFlow {
    const trail = this.#trail(flow, map, element);
    return { ...flow, destination, port, translated: true, probability: flow.probability * share, trail };
  }

  /** Chain `masquerade`: by the address and port that the connection was meant for. */
  #masquerade(flow: TraceFlow): TraceFlow {
    const { source, destination, translated } = flow;
    if (!translated) return flow;
    const masquerade = (set: string, element: string): TraceFlow => ({
      ...this.#hit(flow, set, element),
      masquerade: true,
    });
    const shared = sharedOf(this.#frontends);
    if (source.text === destination.text && shared.here.has(source.text))
      return masquerade('loop', `${source.text} . ${destination.text}`);
    const { protocol, port } = this.#packet;
    const meant = this.#meant;
    if (shared.clusterIPs.has(meant.text)) {
      const why = this.#clusterMasquerade(flow);
      return why === undefined ? flow : masquerade(...why);
    }
    const own = this.#frontend(frontendKey({ address: meant.text, protocol, port }));
    const nodePort = this.#isInNode(meant) ? this.#nodePortAt({ ...flow, port }) : undefined;
    for (const one of [own, nodePort]) {
      const set = one && this.#policyMasquerade(flow, one);
      if (one && set !== undefined) return masquerade(set, one.key);
    }
    return flow;
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
    const known = this.#met.get(key);
    if (known) return known;
    const lines = this.#frontends.get(key);
    if (!lines) return undefined;
    const frontend = readFrontend(key, lines);
    this.#met.set(key, frontend);
    return frontend;
  }

  #end(flow: TraceFlow, verdict: 'drop' | 'reject', set: string, element: string): TraceFlow {
    return { ...this.#hit(flow, set, element), verdict };
  }

  #hit(flow: TraceFlow, set: string, rule: string): TraceFlow {
    return { ...flow, trail: this.#trail(flow, set, rule) };
  }

  #trail({ trail: before }: TraceFlow, set: string, rule: string): Trail {
    return { hit: { table: 'nftables', chain: `${set}${this.#n}`, rule }, before };
  }
}
