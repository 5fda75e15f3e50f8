import { liberalKey, type Observation } from '@sluice/bundle';
import {
  addAll,
  emptyProgram,
  type Family,
  type Outcome,
  type Packet,
  type PacketState,
  parseAddress,
  type RuleHit,
  trace,
  traceNotes,
  TraceError,
} from '@sluice/netfilter';
import { loopback } from '../flows/destinations.ts';
import { factOf, type NodeOf } from '../bundle/node.ts';
import type { BundleView } from '../bundle/view.ts';
import { baseTreatmentOf } from '../flows/base-treatment.ts';
import type { NodeProgram } from '../flows/planes/plane.ts';
import type { Gap } from './gaps.ts';
import { admittedBy, isAdmitting } from './foreign.ts';
import type { ObservedNode } from '../observed/node.ts';

/** Later packets of connections, and packets of none, that a node forwards between its pods and others, or meets at a closed frontend. */
export interface ConnectionCase {
  readonly state: 'established' | 'invalid';
  readonly packet: Packet;
  readonly from: 'outside' | 'pod-here' | 'node';
  /** Of this packet, and of all others that the same rule decides about: `tcp outside to pod-here`. */
  readonly ways: readonly string[];
  readonly observed: 'drop' | 'pass';
  readonly desired: 'drop' | 'pass';
  /** Whether it goes to a frontend that refuses new connections: base rules do not know such ones. */
  readonly isToFrontend: boolean;
  /** The rule that drops it, or that of another program which accepts it before those of a proxy. */
  readonly rule: RuleHit | undefined;
}

/** A packet with where it comes from and goes to. */
interface LaterPacket {
  readonly packet: Packet;
  readonly from: ConnectionCase['from'];
  readonly to: 'outside' | 'pod-here' | 'node' | 'localhost';
}

/** The first packet to a frontend that refuses it, with the program of the bundle that it meets. */
export interface ClosedPacket {
  readonly packet: Packet;
  readonly program: NodeProgram;
}

/** A rule with where it is: of nftables the text alone may be `drop`. */
export const placeOfRule = ({ table, chain, rule }: RuleHit): string => `${table} ${chain}: ${rule}`;

/** The cases of a node, and the rules for which there are no others. */
interface ConnectionCases {
  readonly cases: readonly ConnectionCase[];
  readonly gaps: readonly Gap[];
}

const states = { established: 'ESTABLISHED', invalid: 'INVALID' } as const satisfies Record<string, PacketState>;

/**
 * Packets that are not the first of a connection, by state: the base rules of a profile decide about them, not those of Services. Rules of
 * other programs may ask for a protocol, a direction or the node itself, so each is traced; so are packets of no connection to
 * frontends that refuse new ones, by rules which must ask for the state.
 * @param closed first packets that both sides refuse alike, so that no difference names them, of the node's processes and clients outside
 * @returns of each state the cases that differ, one for each rule that decides, or one that does not; none where the node's pods are not
 * known. And rules that are not understood
 */
export function connectionCases(
  view: BundleView,
  node: NodeOf,
  observed: ObservedNode,
  { host, sysctls }: Observation,
  closed: readonly ClosedPacket[],
): ConnectionCases {
  const { family } = observed.tables;
  const treatment = baseTreatmentOf(view, node.file.profile, family);
  // With liberal windows the kernel marks fewer packets INVALID, and neither program has a rule that drops them.
  const isLiberal = host?.tcpBeLiberal ?? (sysctls[liberalKey] ?? '0') !== '0';
  const packets = laterPackets(node, family, observed);
  const behind = { ...observed, tables: observed.tables.behindTranslation() };
  const gaps: Gap[] = [];
  const cases = (['established', 'invalid'] as const).flatMap((state): readonly ConnectionCase[] => {
    const isDropped = treatment[state].startsWith('DROP') && !(state === 'invalid' && isLiberal);
    const of = state === 'invalid' ? packets.slice(0, 1) : packets;
    const all = of.flatMap(({ packet, from, to }): readonly ConnectionCase[] => {
      const found = verdictOf(to === 'localhost' ? behind : observed, packet, states[state]);
      const ways = [`${packet.protocol} ${from} to ${to}`];
      const desired = isDropped ? 'drop' : 'pass';
      if (!Array.isArray(found)) return [{ state, packet, from, ways, ...found, desired, isToFrontend: false }];
      addAll(gaps, found);
      return [];
    });
    // An established connection to a frontend is translated.
    const toFrontends = (state === 'invalid' ? closed : []).flatMap((one): readonly ConnectionCase[] => {
      const found = verdictOf(observed, one.packet, states[state]);
      if (!Array.isArray(found)) return toFrontend(one, found, observed, isLiberal);
      addAll(
        gaps,
        found.filter(({ rule }) => rule?.isProxys),
      );
      return [];
    });
    const differing = [...all, ...toFrontends].filter((one) => one.observed !== one.desired);
    return differing.length === 0 ? all.slice(0, 1) : firstOfEach(differing);
  });
  return { cases, gaps };
}

/**
 * One of each rule that decides, with the ways of all: an exception for some of them must not cover the others. Which frontends are closed
 * changes with endpoints, so that they are no part of what a rule decides about others, too.
 */
const firstOfEach = (cases: readonly ConnectionCase[]): readonly ConnectionCase[] =>
  [...Map.groupBy(cases, ({ rule }) => rule && placeOfRule(rule)).values()].flatMap((group) => {
    const others = group.filter(({ isToFrontend }) => !isToFrontend);
    const of = others.length > 0 ? others : group;
    return of.slice(0, 1).map((first) => ({ ...first, ways: [...new Set(of.flatMap(({ ways }) => ways))] }));
  });

/** The case of a packet to a closed frontend; none where another program refuses it: what it does, it does after a move, too. */
function toFrontend(
  { packet, program: { rules, ipvs, nft } }: ClosedPacket,
  found: Verdict,
  { addresses }: ObservedNode,
  isLiberal: boolean,
): readonly ConnectionCase[] {
  if (found.observed === 'drop' && found.rule && found.rule.owner !== 'proxy') return [];
  const from = packet.in === undefined ? 'node' : 'outside';
  const ways = [`${packet.protocol} ${from} to a closed frontend`];
  // The rules of the bundle are those of a strict machine: on a liberal one no rule of ours asks for INVALID.
  const state = isLiberal ? states.established : states.invalid;
  const outcomes = trace(rules, packet, { ipvs, nft, localAddresses: addresses, state });
  const desired = outcomes.some(isRefusal) ? 'drop' : 'pass';
  return [{ state: 'invalid', packet, from, ways, ...found, desired, isToFrontend: true }];
}

const isRefusal = ({ verdict }: Outcome): boolean => verdict === 'drop' || verdict === 'reject';

/**
 * Of each protocol: from a client to a pod of this node, from the pod to the client, and answers of both to the node itself; those to a
 * node port on localhost get its address back before routing.
 */
function laterPackets(node: NodeOf, family: Family, observed: ObservedNode): readonly LaterPacket[] {
  const pods = factOf(node, family, 'podCIDR');
  if (pods === undefined) return [];
  const pod = pods.slice(0, pods.indexOf('/')).replace(/\.0$|::$/, family === 'ipv4' ? '.10' : '::a');
  const client = family === 'ipv4' ? '198.51.100.7' : '2001:db8:ffff::7';
  const own = factOf(node, family, 'address');
  if (observed.addresses.includes(pod)) return [];
  const address = parseAddress(pod);
  const fromPod = (address && observed.interfaceTo(address)) ?? 'cni0';
  return (['tcp', 'udp', 'sctp'] as const).flatMap((protocol): readonly LaterPacket[] => {
    const fromOutside = { family, protocol, port: 8080, source: client, in: 'eth0' };
    const fromHere = { family, protocol, port: 8080, source: pod, in: fromPod };
    return [
      { from: 'outside', to: 'pod-here', packet: { ...fromOutside, destination: pod } },
      { from: 'pod-here', to: 'outside', packet: { ...fromHere, destination: client } },
      ...(own === undefined
        ? []
        : ([
            { from: 'outside', to: 'node', packet: { ...fromOutside, destination: own } },
            { from: 'pod-here', to: 'node', packet: { ...fromHere, destination: own } },
          ] as const)),
      ...(family === 'ipv6' || observed.routesLoopback === false
        ? []
        : ([
            { from: 'outside', to: 'localhost', packet: { ...fromOutside, destination: loopback[family] } },
            { from: 'pod-here', to: 'localhost', packet: { ...fromHere, destination: loopback[family] } },
          ] as const)),
    ];
  });
}

type Verdict = Pick<ConnectionCase, 'observed' | 'rule'>;

const untracked = 'it leaves packets of established connections without connection tracking';

function verdictOf(
  { tables, ipvs, addresses, interfaceTo }: ObservedNode,
  packet: Packet,
  state: PacketState,
): Verdict | Gap[] {
  const notes = traceNotes();
  const live = { tables, notes, state, outOf: interfaceTo };
  try {
    const outcomes = trace(emptyProgram, packet, { localAddresses: addresses, ipvs, live, state });
    const dropped = outcomes.find(isRefusal);
    // What passes without an accept passes with it.
    const doubts = [...notes.doubts].filter(
      ([{ effect, hit }]) => dropped || effect.kind !== 'accept' || isAdmitting(hit),
    );
    if (outcomes.length === 0 || doubts.length > 0) return doubts.map(([rule, why]) => ({ rule, why }));
    // Of an answer to a client this undoes the translation; which connections pass here, these packets do not say.
    if (notes.untracking.size > 0) return [...notes.untracking].map((rule) => ({ rule, why: untracked }));
    // A drop may also be one of chance.
    const rule = dropped ? dropped.path.at(-1) : outcomes.flatMap(({ path }) => admittedBy(path) ?? [])[0];
    return { observed: dropped ? 'drop' : 'pass', rule };
  } catch (error) {
    if (error instanceof TraceError) return [{ rule: undefined, why: error.message }];
    throw error;
  }
}
