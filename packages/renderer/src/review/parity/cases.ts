import {
  addressOfEndpoint,
  emptyProgram,
  type LiveRule,
  type Packet,
  parseAddress,
  traceNotes,
  type TraceNotes,
  TraceError,
} from '@sluice/netfilter';
import type { Branch, FlowOutcome, FlowSource } from '../flows/flow.ts';
import { outcomeOf } from '../flows/outcome.ts';
import { asSent, type NodeProgram } from '../flows/program.ts';
import type { ObservedNode } from '../observed/node.ts';

/** What the observed rules do with a packet. */
export type ObservedOutcome =
  | { readonly kind: 'traced'; readonly outcome: FlowOutcome }
  /** Rules that are not understood decide about it. */
  | { readonly kind: 'not-covered'; readonly gaps: readonly Gap[] };

/** Something for which a packet has no certain outcome. */
export interface Gap {
  /** The rule; undefined: the order of tables, or a rule without a target. */
  readonly rule: LiveRule | undefined;
  readonly why: string;
}

/** Doubtful rules that one packet may meet; more are taken to matter. */
const doubtsMax = 24;

/** Traces packets through an observed node. */
export class ObservedTracer {
  readonly #node: ObservedNode;
  readonly #programs;
  /** Networks and interfaces that rules on the way asked for, since it was last emptied. */
  readonly asked = { networks: new Set<string>(), interfaces: new Set<string>() };

  constructor(node: ObservedNode) {
    this.#node = node;
    const isTied = node.tables.ties.length > 0;
    this.#programs = isTied ? [node.tables, node.tables.reversed()] : [node.tables];
  }

  trace(packet: Packet): ObservedOutcome {
    const [first, other] = this.#programs;
    if (!first) throw new Error('an observed node has tables');
    const notes = traceNotes();
    try {
      const outcome = this.#outcome(first, packet, notes);
      for (const network of notes.networks) this.asked.networks.add(network);
      for (const name of notes.interfaces) this.asked.interfaces.add(name);
      if (notes.doubts.size > doubtsMax) return gapsOf([...notes.doubts]);
      const gaps = [...notes.doubts].filter(
        ([rule]) => doesUnread(rule.effect) || this.#outcome(first, packet, traceNotes([rule])).key !== outcome.key,
      );
      if (gaps.length > 0) return gapsOf(gaps);
      if (other && this.#outcome(other, packet, traceNotes()).key !== outcome.key)
        return {
          kind: 'not-covered',
          gaps: [{ rule: undefined, why: `which is first is not known: ${this.#node.tables.ties.join('; ')}` }],
        };
      return { kind: 'traced', outcome };
    } catch (error) {
      if (!(error instanceof TraceError)) throw error;
      return { kind: 'not-covered', gaps: [{ rule: undefined, why: error.message }] };
    }
  }

  #outcome(tables: ObservedNode['tables'], packet: Packet, notes: TraceNotes): FlowOutcome {
    const { ipvs, addresses, interfaceTo } = this.#node;
    const program: NodeProgram = {
      rules: emptyProgram,
      live: { tables, notes, outOf: interfaceTo },
      ...(ipvs ? { ipvs } : {}),
    };
    const outcome = outcomeOf(program, asSent(packet, program), addresses);
    return packet.in === undefined && packet.source.startsWith('127.') && !this.#node.routesLoopback
      ? withoutRoute(outcome, new Set(addresses))
      : outcome;
  }
}

/** Without `route_localnet` the kernel sends no packet from a loopback address to a pod. */
function withoutRoute({ branches, key, ...rest }: FlowOutcome, own: ReadonlySet<string>): FlowOutcome {
  const isLost = ({ verdict, to = '' }: Branch): boolean => verdict === 'dnat' && !own.has(addressOfEndpoint(to));
  return {
    ...rest,
    key: `no route: ${key}`,
    branches: branches.map((branch) => (isLost(branch) ? { ...branch, verdict: 'drop' } : branch)),
  };
}

/** Whether what a rule does is not understood: then no assumption about its tests says what becomes of a packet. */
const doesUnread = (effect: LiveRule['effect']): boolean =>
  effect.kind === 'unread' || (effect.kind === 'sequence' && effect.effects.some(doesUnread));

const gapsOf = (doubts: readonly (readonly [LiveRule, string])[]): ObservedOutcome => ({
  kind: 'not-covered',
  gaps: doubts.map(([rule, why]) => ({ rule, why })),
});

/** Traces a packet through the program of a bundle, with the observed rules that stay. */
export function desiredOutcome(program: NodeProgram, node: ObservedNode, packet: Packet): FlowOutcome {
  const live = { tables: node.foreignSourceNat, notes: traceNotes(), outOf: node.interfaceTo };
  const whole = { ...program, live };
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
