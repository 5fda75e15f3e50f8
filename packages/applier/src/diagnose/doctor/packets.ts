import { addressOfEndpoint, emptyProgram, type Family, type Outcome, trace, TraceError } from '@sluice/netfilter';
import type { DesiredFacts, Facts, Frontend, ListenerFacts, PodFacts } from './facts.ts';
import type { HookPacket } from './meetings.ts';
import { type FrontendPlace } from './target.ts';

/** How many frontends, and endpoints of each, are followed; an even sample of more. */
export const followedMax = { frontends: 24, endpoints: 4 } as const;

/** Where a packet comes from. */
export type Origin = 'node' | 'pod' | 'outside';

/** The predicted path of the first packet of a connection to a frontend, to one of its endpoints. */
export interface FollowedPacket {
  readonly origin: Origin;
  readonly frontend: Frontend;
  /** Before translation. */
  readonly request: HookPacket;
  /** Of the tracer. */
  readonly verdict: Outcome['verdict'];
  /** After translation; undefined: no endpoint gets it. */
  readonly translated: HookPacket | undefined;
  readonly reply: HookPacket | undefined;
  readonly endpoint: string | undefined;
}

/** Clients outside of the cluster: addresses for documentation (RFC 5737, RFC 3849). */
export const outsideClient = { ipv4: '198.51.100.77', ipv6: '2001:db8:77::1' } as const satisfies Record<
  Family,
  string
>;

/** An even sample of a list that is too long. */
export function sample<T>(list: readonly T[], most: number): readonly T[] {
  const step = Math.ceil(list.length / most);
  return step <= 1 ? list : list.filter((_, index) => index % step === 0);
}

/**
 * Follows packets to frontends with the tracer: from a process of the node, from a pod of the node, and to external addresses also from
 * outside. Frontends that the tracer does not understand are left out.
 */
export function follow(frontends: readonly Frontend[], desired: DesiredFacts, facts: Facts): readonly FollowedPacket[] {
  return sample(frontends, followedMax.frontends).flatMap((frontend) =>
    frontend.kind === 'health-check'
      ? []
      : originsOf(frontend, facts).flatMap((origin) => ofOrigin(origin, frontend, desired, facts)),
  );
}

function originsOf(frontend: Frontend, facts: Facts): readonly Origin[] {
  const isExternal = frontend.kind !== 'cluster' && frontend.kind !== undefined;
  const isOutside = isExternal || frontend.address === undefined;
  const hasPods = podOf(frontend.family, facts) !== undefined;
  return ['node', ...(hasPods ? (['pod'] as const) : []), ...(isOutside ? (['outside'] as const) : [])];
}

/** Any pod of this node: one with a route of its own, else an endpoint that no gateway leads to, as on a bridge. */
function podOf(family: Family, { pods = [], routes = [] }: Facts): PodFacts | undefined {
  const isOfFamily = (address: string): boolean => address.includes(':') === (family === 'ipv6');
  const known = pods.find(({ address }) => isOfFamily(address));
  if (known) return known;
  const route = routes.find(
    ({ to, via, dev, isLocal, iif }) =>
      isOfFamily(to) && dev !== undefined && via === undefined && iif === undefined && !isLocal,
  );
  return route?.dev === undefined ? undefined : { address: route.to, dev: route.dev };
}

const ownAddress = (family: Family, { interfaces = [] }: Facts): string | undefined =>
  interfaces
    .filter(({ name }) => name !== 'lo')
    .flatMap(({ addresses }) => addresses)
    .find((one) => one.includes(':') === (family === 'ipv6') && !/^(?:fe80|169\.254\.)/.test(one));

/**
 * The interface by which a client outside of the cluster reaches the node: that of the route to it. On a node with several
 * wires another one may bring its packets, and a rule for one wire may be there on purpose.
 */
function wireOf(family: Family, { interfaces = [], routes = [], pods = [] }: Facts): string | undefined {
  const dev = routes.find(
    ({ to, from, iif }) => to === outsideClient[family] && from === undefined && iif === undefined,
  )?.dev;
  const others = interfaces.filter(
    ({ name, kind, bridge, addresses }) =>
      name !== dev &&
      name !== 'lo' &&
      bridge === undefined &&
      !virtualKinds.has(kind) &&
      pods.every((pod) => pod.dev !== name) &&
      addresses.some((one) => one.includes(':') === (family === 'ipv6') && !/^(?:fe80|169\.254\.)/.test(one)),
  );
  return others.length === 0 ? dev : undefined;
}

/** Interfaces to pods, containers and other nodes' pods. A bridge, bond or VLAN to which the route leads is a wire. */
const virtualKinds: ReadonlySet<string> = new Set([
  'bridge',
  'dummy',
  'vxlan',
  'geneve',
  'ipip',
  'sit',
  'ip6tnl',
  'wireguard',
  'tun',
  'veth',
]);

function ofOrigin(origin: Origin, frontend: Frontend, desired: DesiredFacts, facts: Facts): readonly FollowedPacket[] {
  const { family, protocol, port } = frontend;
  const own = ownAddress(family, facts);
  const pod = podOf(family, facts);
  const destination = frontend.address ?? own;
  const source = origin === 'node' ? own : origin === 'pod' ? pod?.address : outsideClient[family];
  if (source === undefined || destination === undefined || destination.includes('/')) return [];
  const request: HookPacket = {
    family,
    protocol,
    port,
    source,
    destination,
    original: { destination, port },
    isReply: false,
    isTranslated: false,
    isMasqueraded: false,
    in: origin === 'node' ? '' : origin === 'pod' ? pod?.dev : wireOf(family, facts),
    out: undefined,
    isToNode: localAddresses(facts).includes(destination),
  };
  const outcomes = outcomesOf(request, source, desired, facts);
  const served = outcomes.filter(({ to }) => to !== undefined);
  const shown = served.length > 0 ? sample(served, followedMax.endpoints) : outcomes.slice(0, 1);
  return shown.map((outcome) => ({
    origin,
    frontend,
    request,
    verdict: outcome.verdict,
    ...(outcome.to === undefined ? untranslated : translate(request, outcome, facts)),
  }));
}

const untranslated = { translated: undefined, reply: undefined, endpoint: undefined } as const;

/** None where the tracer does not understand a rule. */
function outcomesOf(request: HookPacket, source: string, { state }: DesiredFacts, facts: Facts): readonly Outcome[] {
  const { family, protocol, port, destination } = request;
  const incoming = request.in === '' ? {} : { in: request.in ?? 'eth0' };
  const world = { localAddresses: localAddresses(facts), nft: state.nft, ipvs: state.ipvs };
  try {
    return trace(
      state.families[family] ?? emptyProgram,
      { family, source, destination, protocol, port, ...incoming },
      world,
    );
  } catch (error) {
    if (error instanceof TraceError) return [];
    throw error;
  }
}

/** The packet to the endpoint, and its reply before it is translated back. */
function translate(
  request: HookPacket,
  { to = '', masquerade }: Outcome,
  facts: Facts,
): Pick<FollowedPacket, 'translated' | 'reply' | 'endpoint'> {
  const address = addressOfEndpoint(to);
  const isToNode = localAddresses(facts).includes(address);
  const dev = facts.routes?.find((route) => route.to === address && route.iif === undefined)?.dev;
  const after = {
    ...request,
    port: Number(to.slice(to.lastIndexOf(':') + 1)),
    isTranslated: true,
    isMasqueraded: masquerade,
  };
  const translated: HookPacket = { ...after, destination: address, out: isToNode ? '' : dev, isToNode };
  const reply: HookPacket = {
    ...after,
    isReply: true,
    source: address,
    destination: request.source ?? '',
    in: isToNode ? '' : dev,
    out: request.in,
    isToNode: request.in === '',
  };
  return { translated, reply, endpoint: to };
}

export const localAddresses = ({ interfaces = [] }: Facts): readonly string[] =>
  interfaces.flatMap(({ addresses }) => addresses);

/** The process that listens on an address and port of this node; undefined: none does. */
export const listenerAt = (
  { address, port, protocol }: FrontendPlace,
  { listeners = [] }: Facts,
): ListenerFacts | undefined =>
  listeners.find(
    (one) => one.protocol === protocol && one.port === port && one.address.replace(/^\[(.*)\]$/, '$1') === address,
  );

/** Whether destinations are translated before any chain of iptables: mode nftables does so since edition 4 of its table. */
export const translatesFirst = ({ state }: DesiredFacts): boolean =>
  (state.nft?.settings ?? []).some((one) => Number(/^table (\d+)/.exec(one)?.[1] ?? 0) > 3);
