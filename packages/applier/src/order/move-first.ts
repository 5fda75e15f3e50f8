import { type Family, printChange, type TableName } from '@sluice/netfilter';
import type { Step } from '../ports/kernel.ts';
import { type NodeState, tableOf } from '../ports/node-state.ts';
import type { TakingRule } from './order.ts';

/**
 * The steps that put our jumps before foreign rules: all jumps of a table in one commit.
 * @param ours our rules in the kernel
 */
export function moveFirst(taking: readonly TakingRule[], ours: NodeState): readonly Step[] {
  const tables = Map.groupBy(taking, ({ family, table }) => `${family} ${table}`);
  return [...tables.values()].map(([first, ...rest]): Step => {
    const { family, table } = first as TakingRule;
    const hooks = new Set([first, ...rest].map((one) => one?.hook));
    const jumps = tableOf(ours, family, table).jumps.filter((jump) => hooks.has(jump.split(' ', 2)[1]));
    return stepOf(family, table, jumps);
  });
}

function stepOf(family: Family, table: TableName, jumps: readonly string[]): Step {
  const text = printChange(table, { write: new Map(), drop: [], remove: jumps, insert: jumps });
  return { kind: 'restore-table', family, table, text, because: 'our jumps go before foreign rules' };
}
