import type { NodeCost } from './cost.ts';

/** What a node may cost at most: `budgets` of sluice.yaml. */
export interface Budgets {
  readonly rules?: number;
  readonly chains?: number;
  readonly bytes?: number;
  readonly longestWalk?: number;
  readonly loadSeconds?: number;
}

/** A budget that a profile exceeds. */
export interface ExceededBudget {
  readonly profile: string;
  readonly node: string;
  readonly what: keyof Budgets;
  readonly budget: number;
  readonly cost: number;
}

/** The budgets that profiles exceed; load time is that of the slower backend. */
export function exceededBudgets(costs: readonly NodeCost[], budgets: Budgets): readonly ExceededBudget[] {
  const kinds = [
    'rules',
    'chains',
    'bytes',
    'longestWalk',
    'loadSeconds',
  ] as const satisfies readonly (keyof Budgets)[];
  return costs.flatMap(({ profile, node, loadSeconds, ...cost }) =>
    kinds.flatMap((what) => {
      const budget = budgets[what];
      const spent = what === 'loadSeconds' ? Math.max(...Object.values(loadSeconds)) : cost[what];
      return budget !== undefined && spent > budget ? [{ profile, node, what, budget, cost: spent }] : [];
    }),
  );
}
