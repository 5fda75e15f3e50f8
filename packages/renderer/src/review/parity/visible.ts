import type { FlowOutcome } from '../flows/flow.ts';

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
