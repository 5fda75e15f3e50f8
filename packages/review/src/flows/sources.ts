import {
  networkOf,
  type Address,
  type Cidr,
  cidrContains,
  compareText,
  type Family,
  isInCidr,
  parseAddress,
  parseCidr,
  planeOf,
  perKey,
  perObject,
} from '@sluice/netfilter';
import { valueOf } from '@sluice/bundle';
import type { FlowSource } from './flow.ts';
import { addressAt, numberOf, sizeOf } from './numbers.ts';
import { factOf, type NodeOf } from '../bundle/node.ts';
import { planesOf, choosingPlaneOf } from './planes/planes.ts';
import type { NodeProgram, EndpointTreatment } from './planes/plane.ts';
import type { BundleView } from '../bundle/view.ts';

/**
 * The classes of sources that rules can distinguish on a node. Networks are nested or disjoint, so one address of each, outside of the
 * narrower ones, and one outside of all represent all addresses.
 * @param programs the rules of the node, in one bundle or in both that are compared
 * @param declared networks to distinguish even where rules do not
 * @param named of the same programs, where they are asked more than once
 * @returns each class once: first the node and its pods, then the rest by network
 */
export function sourcesOf(
  view: BundleView,
  node: NodeOf,
  family: Family,
  programs: readonly NodeProgram[],
  declared: readonly string[] = [],
  named: NamedInRules = namedInRules(programs, family),
): readonly FlowSource[] {
  const place = networksOf(view, node, family);
  const networks = distinguished(place, named, declared);
  const all = [...networks.values()];
  const outside = representative(anywhere[family], all, usual[family]);
  const sources = all.flatMap((network) => {
    const address = representative(network, all);
    return address === undefined ? [] : [classify(address, network, place, named)];
  });
  const classes = [
    ...(place.address === undefined ? [] : [{ class: 'node', address: place.address } as const]),
    ...(place.podCIDR === undefined ? podsWithoutNetwork(place, networks, family) : []),
    ...sources,
    ...(outside === undefined ? [] : [classify(outside, undefined, place, named)]),
  ];
  const others = [...named.interfaces].filter((name) => name !== place.podInterface).toSorted(compareText);
  return [...unique(classes), ...others.flatMap((name) => (outside === undefined ? [] : [byInterface(outside, name)]))];
}

/**
 * The sources without the endpoints that rules treat as any other pod. A change of other pods is one of theirs, too; without one nothing
 * changes for them. Hundreds of endpoints of one Service would be traced on each node, for each of its frontends. Endpoints that fill a
 * network whole stay: no other source is in the same networks.
 */
export function withoutPlainEndpoints(
  sources: readonly FlowSource[],
  { view, node, family, programs, declared = [], named }: SourcesPlace,
): readonly FlowSource[] {
  const plain = plainEndpoints(programs);
  if (plain.size === 0) return sources;
  const place = networksOf(view, node, family);
  const networks = [...distinguished(place, named, declared).values()];
  const wide = networks.filter(({ prefix, words }) => prefix < words.length * 16);
  const placeOf = (address: string): string => {
    const parsed = parseAddress(address);
    return wide.map((cidr) => (parsed && isInCidr(parsed, cidr) ? '1' : '0')).join('');
  };
  const others = new Set(
    sources.flatMap((one) => (one.class === 'endpoint' || one.class === 'node' ? [] : [placeOf(one.address)])),
  );
  return sources.filter(
    (one) =>
      one.class !== 'endpoint' ||
      !plain.has(one.address) ||
      !isPodAddress(one.address, place) ||
      !others.has(placeOf(one.address)),
  );
}

/** The networks that a node, its rules and Services tell apart, by text. */
function distinguished(
  { podCIDR, clusterCIDR, address }: NodeNetworks,
  { networks }: NamedInRules,
  declared: readonly string[],
): ReadonlyMap<string, Cidr> {
  const all = [podCIDR, clusterCIDR, networkOf(address ?? ''), ...networks, ...declared.map(networkOf)];
  return new Map(all.flatMap((cidr) => (cidr ? [[cidr.text, cidr]] : [])));
}

interface SourcesPlace {
  readonly view: BundleView;
  readonly node: NodeOf;
  readonly family: Family;
  readonly programs: readonly NodeProgram[];
  /** As for `sourcesOf`. */
  readonly declared?: readonly string[] | undefined;
  /** Of the same programs. */
  readonly named: NamedInRules;
}

const isPodAddress = (address: string, { podCIDR, clusterCIDR }: NodeNetworks): boolean =>
  [podCIDR, clusterCIDR].some((cidr) => cidr !== undefined && cidrContains(cidr.text, address));

/** A source outside of the cluster whose packets arrive on an interface that a rule matches. */
const byInterface = (address: string, name: string): FlowSource => ({
  class: 'outside',
  network: `by ${name}`,
  address,
  in: name,
});

/**
 * The assumed incoming interface of packets from an address: the bundle knows the cluster's networks only.
 * @returns its name and the reason for the choice
 */
export function incomingOf(
  view: BundleView,
  node: NodeOf,
  family: Family,
  address: string,
): { readonly name: string; readonly because: string } {
  const { podCIDR, podInterface } = networksOf(view, node, family);
  if (podCIDR === undefined) return { name: 'eth0', because: `the bundle has no pod CIDR of ${node.name}` };
  return cidrContains(podCIDR.text, address)
    ? { name: podInterface, because: `${podCIDR.text} is the node's pod CIDR` }
    : { name: 'eth0', because: `${address} is outside of the node's pod CIDR ${podCIDR.text}` };
}

/** What programs of a node name: the distinctions among sources. */
interface NamedInRules {
  readonly networks: readonly (Cidr | undefined)[];
  readonly interfaces: ReadonlySet<string>;
  readonly endpoints: ReadonlySet<string>;
}

/** The networks, interfaces and endpoints that rules, sets and virtual servers name. */
export function namedInRules(programs: readonly NodeProgram[], family: Family): NamedInRules {
  const networks = new Set<string>();
  const interfaces = new Set<string>();
  const states = programs.map(({ rules, ...others }) => ({ families: { [family]: rules }, ...others }));
  const endpoints = new Set(states.flatMap((state) => [...planeOf(state).read(state).addresses()]));
  const bound = new Set(programs.flatMap(({ ipvs }) => ipvs?.addresses[family] ?? []));
  for (const program of programs)
    for (const plane of planesOf(program)) {
      const found = plane.named(program);
      for (const network of found.networks) networks.add(network);
      for (const name of found.interfaces) interfaces.add(name);
    }
  // Endpoints are sources too: without a rule for its address the hairpin traffic of one would not be masqueraded.
  const cidrs = [...new Set([...networks, ...endpoints])].toSorted(compareText).map(networkOf);
  // The kernel drops packets from loopback addresses, and from the node's own, that arrive on an interface, as martians.
  const possible = cidrs.filter(
    (cidr) => cidr?.family === family && !isInCidr(cidr, loopback[family]) && !isOneOf(cidr, bound),
  );
  return { networks: possible, interfaces, endpoints };
}

const isOneOf = ({ words, prefix, text }: Cidr, addresses: ReadonlySet<string>): boolean =>
  prefix === words.length * 16 && addresses.has(text.slice(0, text.lastIndexOf('/')));

interface NodeNetworks {
  readonly address: string | undefined;
  readonly podCIDR: Cidr | undefined;
  readonly clusterCIDR: Cidr | undefined;
  readonly podNetworks: readonly Cidr[];
  /** The interface of the node's pods. */
  readonly podInterface: string;
}

const networksAt = perKey<BundleView, NodeNetworks>();

const networksOf = (view: BundleView, node: NodeOf, family: Family): NodeNetworks =>
  networksAt(view, `${node.name} ${family}`, () => readNetworks(view, node, family));

function readNetworks(view: BundleView, node: NodeOf, family: Family): NodeNetworks {
  const { values } = node.profile;
  const bridge = valueOf(values, undefined, 'bridgeInterface');
  const prefix = valueOf(values, undefined, 'interfaceNamePrefix');
  const cluster = valueOf(values, family, 'clusterCIDR');
  return {
    address: factOf(node, family, 'address'),
    podCIDR: parseCidr(factOf(node, family, 'podCIDR') ?? ''),
    clusterCIDR: typeof cluster === 'string' ? parseCidr(cluster) : undefined,
    podNetworks: podNetworksOf(view)[family],
    podInterface: typeof bridge === 'string' ? bridge : typeof prefix === 'string' ? `${prefix}0` : 'pod0',
  };
}

const podNetworksOf = perObject(
  (view: BundleView): Record<Family, readonly Cidr[]> => ({
    ipv4: podNetworks(view, 'ipv4'),
    ipv6: podNetworks(view, 'ipv6'),
  }),
);

function podNetworks(view: BundleView, family: Family): readonly Cidr[] {
  const found = [...view.nodes].flatMap(([, { values }]) => {
    const value = valueOf(values, family, 'podCIDR');
    return typeof value === 'string' ? [value] : [];
  });
  return [...new Set(found)].flatMap((text) => parseCidr(text) ?? []);
}

function classify(address: string, network: Cidr | undefined, place: NodeNetworks, named: NamedInRules): FlowSource {
  const isKnown = [undefined, place.podCIDR?.text, place.clusterCIDR?.text].includes(network?.text);
  const label = isKnown || network === undefined ? {} : { network: network.text };
  const parsed = parseAddress(address);
  const isIn = (cidr: Cidr | undefined): boolean =>
    cidr !== undefined && parsed !== undefined && isInCidr(parsed, cidr);
  const isHere = isIn(place.podCIDR);
  const incoming = isHere ? place.podInterface : 'eth0';
  if (address === place.address) return { class: 'node', address };
  if (named.endpoints.has(address)) return { class: 'endpoint', network: address, address, in: incoming };
  if (isHere) return { class: 'pod-here', ...label, address, in: incoming };
  const isPod = isIn(place.clusterCIDR) || (network !== undefined && place.podNetworks.some(isIn));
  return { class: isPod ? 'pod-elsewhere' : 'outside', ...label, address, in: incoming };
}

/** Pods of a node without a known pod network are distinguished by their interface alone. */
function podsWithoutNetwork(
  place: NodeNetworks,
  networks: ReadonlyMap<string, Cidr>,
  family: Family,
): readonly FlowSource[] {
  const within = place.clusterCIDR ?? anywhere[family];
  const address = representative(within, [...networks.values()], [podFallback[family]]);
  return address === undefined ? [] : [{ class: 'pod-here', address, in: place.podInterface }];
}

/** Drops sources with the same address and interface. */
function unique(sources: readonly FlowSource[]): readonly FlowSource[] {
  return [...new Map(sources.map((source) => [`${source.address} ${source.in ?? ''}`, source])).values()];
}

const anywhere = { ipv4: parseCidr('0.0.0.0/0')!, ipv6: parseCidr('::/0')! } as const;
const loopback = { ipv4: parseCidr('127.0.0.0/8')!, ipv6: parseCidr('::1/128')! } as const;
/** Sample addresses outside of the cluster, from the ranges for documentation. */
const usual = {
  ipv4: ['198.51.100.7', '203.0.113.7', '192.0.2.7'],
  ipv6: ['2001:db8:ffff::7', '3fff::7'],
} as const satisfies Record<Family, readonly string[]>;
const podFallback = { ipv4: '100.64.0.7', ipv6: 'fd64::7' } as const satisfies Record<Family, string>;

/**
 * An address of a network outside of the narrower ones. If there is one, then one directly behind a narrower network or near the start
 * is free too, so few candidates have to be tried.
 */
function representative(network: Cidr, all: readonly Cidr[], preferred: readonly string[] = []): string | undefined {
  if (network.prefix === network.words.length * 16)
    return isMartian(network) ? undefined : network.text.slice(0, network.text.indexOf('/'));
  const narrower = all.filter((cidr) => cidr.prefix > network.prefix && isInCidr(cidr, network));
  const free = (address: Address | undefined): boolean =>
    address !== undefined &&
    isInCidr(address, network) &&
    !isMartian(address) &&
    !narrower.some((cidr) => isInCidr(address, cidr));
  const named = preferred.find((text) => free(parseAddress(text)));
  if (named !== undefined) return named;
  for (const number of candidates(network, narrower)) {
    const address = parseAddress(addressAt(number, network.family));
    if (free(address)) return address?.text;
  }
  return undefined;
}

function* candidates(network: Cidr, narrower: readonly Cidr[]): Generator<bigint> {
  const first = numberOf(network);
  yield* [first + 10n, first + 1n, first, first + sizeOf(network) / 2n];
  for (const cidr of narrower) yield numberOf(cidr) + sizeOf(cidr);
}

/**
 * Sources that no packet from a wire has: the kernel drops it before any rule of Services (`ip_route_input_slow` in `net/ipv4/route.c`;
 * `ip6_rcv_core` in `net/ipv6/ip6_input.c`). 127.0.0.0/8 is none of them: it passes with `route_localnet`.
 */
const martians = ['0.0.0.0/8', '224.0.0.0/4', '255.255.255.255/32', '::/127', 'ff00::/8'].map(
  (text) => parseCidr(text)!,
);

const isMartian = (address: Address | Cidr): boolean =>
  martians.some((network) => network.family === address.family && isInCidr(address, network));

/**
 * The addresses of endpoints that all programs of a node treat as any other pod, but for connections to themselves. A program that does
 * not name an address treats it as any other pod, too.
 * @param programs of one mode
 * @returns none in mode ipvs and of observed nodes: there every endpoint has to be looked at
 */
function plainEndpoints(programs: readonly NodeProgram[]): ReadonlySet<string> {
  const found = programs.map(endpointsIn);
  const all = (kind: keyof EndpointTreatment): ReadonlySet<string> => new Set(found.flatMap((one) => [...one[kind]]));
  const [masked, unmasked, special] = [all('masked'), all('unmasked'), all('special')];
  const isOne = (address: string): boolean => masked.has(address) !== unmasked.has(address) && !special.has(address);
  return new Set([...masked, ...unmasked].filter(isOne));
}

function endpointsIn(program: NodeProgram): EndpointTreatment {
  const none = new Set<string>();
  return program.live ? { masked: none, unmasked: none, special: none } : choosingPlaneOf(program).endpoints(program);
}
