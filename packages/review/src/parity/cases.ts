import {
  addressOfEndpoint,
  emptyProgram,
  type LiveRule,
  type LiveTables,
  type Packet,
  parseAddress,
  traceNotes,
  type TraceNotes,
  TraceError,
} from '@sluice/netfilter';
import type { Branch, FlowOutcome, FlowSource } from '../flows/flow.ts';
import { outcomeOf } from '../flows/outcome.ts';
import { asSent } from '../flows/program.ts';
import type { NodeProgram } from '../flows/planes/plane.ts';
import type { ObservedNode } from '../observed/node.ts';
import type { Gap } from './gaps.ts';

/** What the observed rules do with a packet. */
type ObservedOutcome =
  | { readonly kind: 'traced'; readonly outcome: FlowOutcome }
  /** Rules that are not understood decide about it. */
  | { readonly kind: 'not-covered'; readonly gaps: readonly Gap[] };

/** Doubtful rules that one packet may meet; more are taken to matter. */
const doubtsMax = 24;

/** Combinations of doubtful rules that are tried for one of them; with more it is taken to matter. */
const assumptionsMax = 64;

/** Networks of sources that the rules on the way of a packet name: each is a class of sources. */
const networksMax = 1_000;

interface InOrder {
  readonly outcome: FlowOutcome;
  readonly gaps: readonly Gap[];
}

/** Traces packets through an observed node. */
export class ObservedTracer {
  readonly #node: ObservedNode;
  readonly #programs;
  /** Networks and interfaces that rules on the way asked for, also those behind doubtful rules, since it was last emptied. */
  readonly asked = { networks: new Set<string>(), interfaces: new Set<string>() };

  constructor(node: ObservedNode) {
    this.#node = node;
    const isTied = node.tables.ties.length > 0;
    this.#programs = isTied ? [node.tables, node.tables.reversed()] : [node.tables];
  }

  trace(packet: Packet): ObservedOutcome {
    try {
      let first: FlowOutcome | undefined;
      for (const tables of this.#programs) {
        const { outcome, gaps } = this.#inOrder(tables, packet);
        if (gaps.length > 0) return { kind: 'not-covered', gaps };
        if (this.#isWithoutRoute(packet, outcome) === undefined)
          return notCovered('the sysctl route_localnet was not observed', 'node ports on loopback addresses');
        if (first && outcome.key !== first.key) return notCovered(this.#tied);
        first ??= outcome;
      }
      if (!first) throw new Error('an observed node has tables');
      return { kind: 'traced', outcome: first };
    } catch (error) {
      if (!(error instanceof TraceError)) throw error;
      return notCovered(error.message, 'rules on the way of a packet');
    }
  }

  get #tied(): string {
    return `which is first is not known: ${this.#node.tables.ties.join('; ')}`;
  }

  #inOrder(tables: LiveTables, packet: Packet): InOrder {
    const notes = traceNotes();
    const outcome = this.#outcome(tables, packet, notes);
    const doubts = [...notes.doubts];
    const all = doubts.map(([rule]) => rule);
    const isOther = (assumed: readonly LiveRule[]): boolean => this.#isOther(tables, packet, outcome, assumed, all);
    const deciding =
      doubts.length > doubtsMax ? doubts : doubts.filter(([rule]) => doesUnread(rule.effect) || isOther([rule]));
    // One may lead to another: the first sets a mark, and the second asks for it.
    const isTogether = deciding.length === 0 && all.length > 1 && isOther(all);
    return { outcome, gaps: (isTogether ? doubts : deciding).map(([rule, why]) => ({ rule, why })) };
  }

  /** Whether a packet has another outcome if doubtful rules match, or those that it meets only then. */
  #isOther(
    tables: LiveTables,
    packet: Packet,
    outcome: FlowOutcome,
    first: readonly LiveRule[],
    known: readonly LiveRule[],
  ): boolean {
    const met = new Set(known);
    const queue = [first];
    for (const assumed of queue) {
      if (queue.length > assumptionsMax) return true;
      const notes = traceNotes(assumed);
      if (this.#outcome(tables, packet, notes).key !== outcome.key) return true;
      const behind = [...notes.doubts.keys()].filter((rule) => !met.has(rule));
      if (behind.some(({ effect }) => doesUnread(effect))) return true;
      for (const rule of behind) {
        met.add(rule);
        queue.push([...assumed, rule]);
      }
      if (behind.length > 1) queue.push([...assumed, ...behind]);
    }
    return false;
  }

  #outcome(tables: LiveTables, packet: Packet, notes: TraceNotes): FlowOutcome {
    const outcome = this.#traced(tables, packet, notes);
    if (notes.networks.size > networksMax)
      throw new TraceError(
        `${notes.networks.size} networks of sources are named: more than ${networksMax} are not compared`,
      );
    for (const network of notes.networks) this.asked.networks.add(network);
    for (const name of notes.interfaces) this.asked.interfaces.add(name);
    return outcome;
  }

  #traced(tables: LiveTables, packet: Packet, notes: TraceNotes): FlowOutcome {
    const { ipvs, addresses, interfaceTo } = this.#node;
    const program: NodeProgram = {
      rules: emptyProgram,
      live: { tables, notes, outOf: interfaceTo },
      ...(ipvs ? { ipvs } : {}),
    };
    const outcome = outcomeOf(program, asSent(packet, program), addresses);
    return this.#isWithoutRoute(packet, outcome) === true ? withoutRoute(outcome, addresses) : outcome;
  }

  /** Whether the kernel has no route for a packet to a pod; undefined: not known. */
  #isWithoutRoute({ in: incoming, source }: Packet, { branches }: FlowOutcome): boolean | undefined {
    const { addresses, routesLoopback } = this.#node;
    if (incoming !== undefined || !source.startsWith('127.')) return false;
    if (!branches.some((branch) => leaves(branch, addresses))) return false;
    return routesLoopback === undefined ? undefined : !routesLoopback;
  }
}

const leaves = ({ verdict, to = '' }: Branch, own: readonly string[]): boolean =>
  verdict === 'dnat' && !own.includes(addressOfEndpoint(to));

/** Without `route_localnet` the kernel sends no packet from a loopback address to a pod. */
const withoutRoute = ({ branches, key, ...rest }: FlowOutcome, own: readonly string[]): FlowOutcome => ({
  ...rest,
  key: `no route: ${key}`,
  branches: branches.map((branch) => (leaves(branch, own) ? { ...branch, verdict: 'drop' } : branch)),
});

/** Whether what a rule does is not understood: then no assumption about its tests says what becomes of a packet. */
const doesUnread = (effect: LiveRule['effect']): boolean =>
  effect.kind === 'unread' || (effect.kind === 'sequence' && effect.effects.some(doesUnread));

const notCovered = (why: string, what = 'the order of rules'): ObservedOutcome => ({
  kind: 'not-covered',
  gaps: [{ rule: undefined, what, why }],
});

/** Traces a packet through the program of a bundle, with the observed rules that stay. */
export function desiredOutcome(program: NodeProgram, node: ObservedNode, packet: Packet): FlowOutcome {
  const { foreignSourceNat: tables, interfaceTo } = node;
  const whole = tables.isEmpty ? program : { ...program, live: { tables, notes: traceNotes(), outOf: interfaceTo } };
  return outcomeOf(whole, asSent(packet, whole), node.addresses);
}

/** The packet of a source; observed routes say by which interface it arrives. */
export function packetOf(source: FlowSource, to: Omit<Packet, 'source' | 'in'>, node: ObservedNode): Packet {
  const base = { ...to, source: source.address };
  if (source.in === undefined) return base;
  const address = parseAddress(source.address);
  const isNamed = source.network?.startsWith('by ') === true;
  const arriving = isNamed || !address ? undefined : node.interfaceTo(address);
  return { ...base, in: arriving ?? source.in };
}
