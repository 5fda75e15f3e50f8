import type { Family, TableName } from '@sluice/bundle';
import type { Plan } from '../rollout/plan.ts';
import type { Kernel } from '../rollout/ports.ts';
import { type NodeState, tableOf } from '../rollout/state.ts';
import { unlike } from '../rollout/verify.ts';
import { entryNames, isTree } from './entries.ts';
import type { Way } from './way.ts';

/** Where the entry chains of a table are not what they should be. Cheap: it reads few chains. */
export async function entriesDiffer(
  state: NodeState,
  { family, table }: { readonly family: Family; readonly table: TableName },
  kernel: Kernel,
): Promise<string | undefined> {
  const { chains } = tableOf(state, family, table);
  const names = entryNames[table].filter((name) => chains.has(name));
  if (names.length === 0) return undefined;
  const seen = await kernel.observeChains(family, table, names);
  const changed = names.find((name) => seen.get(name)?.join('\n') !== chains.get(name)?.join('\n'));
  return changed === undefined ? undefined : `${family} ${table} chain ${changed}`;
}

/**
 * Where the kernel is not what an update of endpoints led to.
 *
 * In layout `tree` it is enough to read the entry chains of the tables that were touched: a table changes in one commit, an entry
 * chain names the root, and the name of a chain says what is in it and behind it.
 */
export async function updateDiffers(
  { turned }: Pick<Way, 'turned'>,
  steps: Plan,
  kernel: Kernel,
): Promise<string | undefined> {
  const isSmall = steps.touched.every(({ change }) => change.insert.length + change.remove.length === 0);
  if (!isTree(turned) || !isSmall) return unlike(turned, steps, kernel);
  const differences = await Promise.all(steps.touched.map((one) => entriesDiffer(turned, one, kernel)));
  return differences.find((one) => one !== undefined);
}
