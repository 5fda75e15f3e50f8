import type { ChangedFlow } from '../../review/diff-flows.ts';
import type { Destination } from '../../review/flow.ts';

/** A changed flow, and every destination for which just the same changes. */
export interface FoldedFlow {
  readonly flow: ChangedFlow;
  /** Its own first. */
  readonly to: readonly Destination[];
}

/**
 * Puts flows together that differ in their destination alone: a mode that answers for all ports of ten thousand addresses is one
 * line to read.
 */
export function foldDestinations(flows: readonly ChangedFlow[]): readonly FoldedFlow[] {
  const alike = Map.groupBy(flows, ({ nodes, family, destination, source, alsoFrom, old, new: fresh }) => {
    const sources = [source, ...alsoFrom].map((one) => `${one.class} ${one.network ?? ''}`);
    return JSON.stringify([nodes, family, destination.kind, sources, old.key, fresh.key]);
  });
  return [...alike.values()].map((all) => ({ flow: all[0]!, to: all.map(({ destination }) => destination) }));
}
