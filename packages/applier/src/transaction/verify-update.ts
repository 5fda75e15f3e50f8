import type { Family, TableName } from '@sluice/netfilter';
import type { Plan } from '../plan/plan.ts';
import type { Kernel } from '../ports/kernel.ts';
import { type NodeState, tableOf } from '../ports/node-state.ts';
import { firstDifference } from './verify.ts';
import { entryNames, isTree } from '../plan/entries.ts';
import type { TransactionPlan } from '../plan/transaction-plan.ts';

/** Compares the entry chains of a table with a state. Cheap: it reads few chains. @returns the first that differs */
export async function entryDifference(
  state: NodeState,
  { family, table }: { readonly family: Family; readonly table: TableName },
  kernel: Kernel,
): Promise<string | undefined> {
  const { chains } = tableOf(state, family, table);
  const names = entryNames[table].filter((name) => chains.has(name));
  if (names.length === 0) return undefined;
  const actual = await kernel.observeChains(family, table, names);
  const changed = names.find((name) => actual.get(name)?.join('\n') !== chains.get(name)?.join('\n'));
  return changed === undefined ? undefined : `${family} ${table} chain ${changed}`;
}

/**
 * Compares the kernel with the result of an endpoint update.
 *
 * In layout `tree` it is enough to read the entry chains of the tables that were touched: a table changes in one commit, an entry
 * chain names the root, and a tagged name stands for the content of a chain and of all chains below it.
 * @returns the first difference
 */
export async function updateDifference(
  { afterCutOver }: Pick<TransactionPlan, 'afterCutOver'>,
  steps: Plan,
  kernel: Kernel,
): Promise<string | undefined> {
  const isSmall = steps.touched.every(({ change }) => change.insert.length + change.remove.length === 0);
  if (!isTree(afterCutOver) || !isSmall) return firstDifference(afterCutOver, steps, kernel);
  const differences = await Promise.all(steps.touched.map((one) => entryDifference(afterCutOver, one, kernel)));
  return differences.find((one) => one !== undefined);
}
