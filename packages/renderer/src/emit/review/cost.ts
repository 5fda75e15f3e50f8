import type { Budgets, NodeCost, Overspent } from '../../review/cost.ts';

/** Prints what a bundle costs; the last lines name every budget that is spent. */
export function printCost(
  costs: readonly NodeCost[],
  budgets: Budgets,
  spent: readonly Overspent[],
  format: 'text' | 'json',
): string {
  if (format === 'json') {
    const document = {
      apiVersion: 'sluice.dev/v1alpha1',
      kind: 'BundleCost',
      profiles: costs,
      budgets,
      overspent: spent,
    };
    return `${JSON.stringify(document, null, 2)}\n`;
  }
  const rows = [
    ['PROFILE', 'NODE', 'NODES', 'RULES', 'CHAINS', 'BYTES', 'LONGEST WALK', 'FIRST LOAD nft', 'legacy'],
    ...costs.map((cost) =>
      [
        cost.profile,
        cost.node,
        cost.nodes,
        cost.rules,
        cost.chains,
        cost.bytes,
        cost.longestWalk,
        `${cost.loadSeconds.nft} s`,
        `${cost.loadSeconds.legacy} s`,
      ].map(String),
    ),
  ];
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((cells) => cells[column]!.length)));
  const table = rows.map(
    (cells) =>
      `${cells
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join('  ')
        .trimEnd()}\n`,
  );
  const beyond = spent.map(
    ({ profile, node, what, budget, cost }) => `${profile} (${node}): ${what} is ${cost}, the budget is ${budget}\n`,
  );
  return [...table, ...beyond].join('');
}
