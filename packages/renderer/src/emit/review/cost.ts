import type { Budgets, ExceededBudget } from '../../review/cost/budgets.ts';
import type { NodeCost } from '../../review/cost/cost.ts';

/** Prints the cost of a bundle; the last lines name every exceeded budget. */
export function printCost(
  costs: readonly NodeCost[],
  budgets: Budgets,
  spent: readonly ExceededBudget[],
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
  const hasVirtual = costs.some(({ virtual }) => virtual !== undefined);
  const rows = [headings(hasVirtual), ...costs.map((cost) => cellsOf(cost, hasVirtual))];
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

function headings(hasVirtual: boolean): readonly string[] {
  const virtual = hasVirtual ? ['SERVERS', 'REAL', 'ENTRIES', 'ADDRESSES'] : [];
  const rules = ['PROFILE', 'LAYOUT', 'NODE', 'NODES', 'RULES', 'CHAINS'];
  return [...rules, ...virtual, 'BYTES', 'LONGEST WALK', 'FIRST LOAD nft', 'legacy'];
}

function cellsOf(cost: NodeCost, hasVirtual: boolean): readonly string[] {
  const { servers = 0, realServers = 0, entries = 0, addresses = 0 } = cost.virtual ?? {};
  const virtual = hasVirtual ? [servers, realServers, entries, addresses] : [];
  const { nft, legacy } = cost.loadSeconds;
  const rules = [cost.profile, cost.layout, cost.node, cost.nodes, cost.rules, cost.chains];
  return [...rules, ...virtual, cost.bytes, cost.longestWalk, `${nft} s`, `${legacy} s`].map(String);
}
