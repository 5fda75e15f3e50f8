import type { FlowOutcome } from '../flows/flow.ts';
import type { FlowRow } from '../flows/flows.ts';
import type { DeclaredFrontend } from '../prove/declared.ts';
import { isSameBut } from '../prove/mode-differences.ts';

/**
 * What packets show of an outcome. A client that has one endpoint only keeps it, whether rules remember it or not, unless they send it
 * elsewhere when it comes again; and a rule that accepts what no later one drops does nothing.
 */
export function visible({ branches, affinity, ...rest }: FlowOutcome): FlowOutcome {
  const isSeen =
    affinity !== undefined && (new Set(branches.map(({ to }) => to)).size > 1 || affinity.includes(' to '));
  return {
    ...rest,
    branches: branches.map((branch) => (branch.verdict === 'accept' ? { ...branch, verdict: 'pass' } : branch)),
    ...(isSeen ? { affinity } : {}),
  };
}

/** Packets of the node itself have one of its addresses, masqueraded or not; loopback addresses must be. */
export function isUnobservable(
  { source, destination }: Pick<FlowRow, 'source' | 'destination'>,
  frontend: DeclaredFrontend | undefined,
  observed: FlowOutcome,
  desired: FlowOutcome,
): boolean {
  if (source.class !== 'node' || destination.kind === 'localhost' || frontend?.role === 'cluster') return false;
  return isSameBut(observed, desired, () => true);
}
