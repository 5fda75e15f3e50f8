import type { ChangedFlow } from '../../review/diff/flow-changes.ts';
import type { Destination } from '../../review/flows/flow.ts';

/** A changed flow, and every destination with the same change. */
export interface FoldedFlow {
  readonly flow: ChangedFlow;
  /** The destination of the flow first. */
  readonly to: readonly Destination[];
}

/**
 * Merges flows that differ only in their destination, so that a change for all ports of ten thousand addresses is one line.
 */
export function foldDestinations(flows: readonly ChangedFlow[]): readonly FoldedFlow[] {
  const groups = Map.groupBy(flows, ({ nodes, family, destination, source, alsoFrom, old, new: fresh }) => {
    const sources = [source, ...alsoFrom].map((one) => `${one.class} ${one.network ?? ''}`);
    return JSON.stringify([nodes, family, destination.kind, sources, old.key, fresh.key]);
  });
  return [...groups.values()].map((all) => ({ flow: all[0]!, to: all.map(({ destination }) => destination) }));
}
