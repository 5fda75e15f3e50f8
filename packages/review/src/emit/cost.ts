import { columns, document } from '@sluice/cli';
import type { Budgets, ExceededBudget } from '../cost/budgets.ts';
import type { NodeCost } from '../cost/cost.ts';

/** Prints the cost of a bundle; the last lines name every exceeded budget. */
export function printCost(
  costs: readonly NodeCost[],
  budgets: Budgets,
  spent: readonly ExceededBudget[],
  format: 'text' | 'json',
): string {
  if (format === 'json') return document('BundleCost', { profiles: costs, budgets, overspent: spent });
  const shown = {
    virtual: costs.some(({ virtual }) => virtual !== undefined),
    elements: costs.some(({ elements }) => elements !== undefined),
  };
  const table = columns([headings(shown), ...costs.map((cost) => cellsOf(cost, shown))]);
  const beyond = spent.map(
    ({ profile, node, what, budget, cost }) => `${profile} (${node}): ${what} is ${cost}, the budget is ${budget}\n`,
  );
  return [table, ...beyond].join('');
}

/** The columns of modes that some profile has. */
type ShownColumns = Readonly<Record<'virtual' | 'elements', boolean>>;

function headings(shown: ShownColumns): readonly string[] {
  const ofIpvs = shown.virtual ? ['SERVERS', 'REAL', 'ENTRIES', 'ADDRESSES'] : [];
  const virtual = [...(shown.elements ? ['ELEMENTS'] : []), ...ofIpvs];
  const rules = ['PROFILE', 'LAYOUT', 'NODE', 'NODES', 'RULES', 'CHAINS'];
  return [...rules, ...virtual, 'BYTES', 'LONGEST WALK', 'FIRST LOAD nft', 'legacy'];
}

function cellsOf(cost: NodeCost, shown: ShownColumns): readonly string[] {
  const { servers = 0, realServers = 0, entries = 0, addresses = 0 } = cost.virtual ?? {};
  const ofIpvs = shown.virtual ? [servers, realServers, entries, addresses] : [];
  const virtual = [...(shown.elements ? [cost.elements ?? 0] : []), ...ofIpvs];
  const { nft, legacy } = cost.loadSeconds;
  // Mode nftables has one layout and one tool.
  const isTable = cost.elements !== undefined;
  const rules = [cost.profile, isTable ? '-' : cost.layout, cost.node, cost.nodes, cost.rules, cost.chains];
  return [...rules, ...virtual, cost.bytes, cost.longestWalk, `${nft} s`, isTable ? '-' : `${legacy} s`].map(String);
}
