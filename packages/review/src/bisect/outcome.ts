import { orProblems } from '../bundle/node.ts';
import type { BundleFiles } from '@sluice/bundle';
import { compareText, type Problem } from '@sluice/netfilter';
import { type NodeTrace, type ServiceQuestion, type TraceQuestion, traceOnNode } from '../trace/trace-node.ts';

/** What becomes of the first packet of a connection on a node. */
export interface PacketOutcome {
  /** Equal for equal outcomes, and only for these. */
  readonly key: string;
  /** By text. Empty: the Service does not exist. */
  readonly ends: readonly PacketEnd[];
}

export interface PacketEnd {
  readonly verdict: NodeTrace['ways'][number]['verdict'];
  /** `10.244.1.5:8080`, for verdict `dnat`. */
  readonly to?: string;
  readonly masquerade: boolean;
  /** The share of connections, 0 to 1. */
  readonly share: number;
}

/** What of an outcome counts: all of it, or only whether packets are served, rejected, dropped or untouched. */
type OutcomeAspect = 'all' | 'verdict';

/** What a bundle does with a packet, or why it is unknown. */
export type TestedOutcome = { readonly outcome: PacketOutcome } | { readonly problem: Problem };

/**
 * The outcome of a packet in one bundle. A Service that the bundle does not have is an outcome, not a problem: it may have been added or
 * removed since.
 */
export function packetOutcome(
  files: BundleFiles,
  question: TraceQuestion | ServiceQuestion,
  aspect: OutcomeAspect,
): TestedOutcome {
  const traced = orProblems(() => traceOnNode(files, question));
  if ('ways' in traced) return { outcome: outcomeOf(traced, aspect) };
  const [problem] = traced;
  return problem!.code === 'INPUT_EMPTY' ? { outcome: { key: 'no such Service', ends: [] } } : { problem: problem! };
}

/** The outcome that a trace shows: several paths to one end count as one. */
function outcomeOf({ ways }: Pick<NodeTrace, 'ways'>, aspect: OutcomeAspect): PacketOutcome {
  const ends = new Map<string, PacketEnd>();
  for (const { verdict, to, masquerade, probability } of ways) {
    const key = `${verdict} ${to ?? ''} ${masquerade}`;
    const share = (ends.get(key)?.share ?? 0) + probability;
    ends.set(key, { verdict, ...(to === undefined ? {} : { to }), masquerade, share });
  }
  const sorted = [...ends].toSorted(([a], [b]) => compareText(a, b));
  const key =
    aspect === 'verdict'
      ? [...new Set(sorted.map(([, { verdict }]) => verdict))].join(', ')
      : // Probabilities in rules have ten digits.
        sorted.map(([text, { share }]) => `${text} ${share.toFixed(6)}`).join(', ');
  return { key, ends: sorted.map(([, end]) => end) };
}
