import { addAll, type Family, setOf, type TableName, tableNames, targetOf, treeEntries } from '@sluice/netfilter';
import type { Kernel, SwitchState } from '../../ports/kernel.ts';
import type { OpenTransaction } from '../../ports/journal.ts';
import { familyNames, type NodeState, tableOf, rootsOf } from '../../ports/node-state.ts';

/** Which program an entry chain falls back to when the switch is off. */
type Default = 'old' | 'new' | 'missing' | 'foreign';

/** A transaction that an earlier process left open, and what the kernel shows of it. */
export interface UnfinishedTransaction {
  readonly open: Pick<OpenTransaction, 'phase' | 'flip' | 'update'> | undefined;
  /** One for each entry chain that differs between the two programs. */
  readonly defaults: readonly Default[];
  /** undefined: the sets do not exist. */
  readonly switchStates: Readonly<Record<TableName, SwitchState>> | undefined;
}

/** What a starting process does about it. Each is idempotent. */
type Recovery =
  /** Compare the kernel with the active generation, as every scan does, and remove unused sets. */
  | { readonly do: 'check' }
  /** Return to the old program: begins with turning the switch off. */
  | { readonly do: 'roll-back' }
  /** Finish with the new program: begins with pinning the switch. */
  | { readonly do: 'finish' }
  | { readonly do: 'halt'; readonly because: string };

/**
 * Decides what becomes of a transaction that a crash left open: the recovery table. The journal alone decides between the programs: the commit
 * record makes it the new one. The kernel only shows how far the last process came, and the steps from there are planned, so most rows need no
 * case of their own. The exception, halt, is a state that this protocol cannot have produced.
 *
 * | journal | kernel | meaning | decision |
 * |---|---|---|---|
 * | nothing open | any | reconciled, drifted, or rules lost in a reboot | check |
 * | open | all defaults old, or lost | probation did not end; the dead-man switch may have expired | roll back |
 * | open, flip by the switch | a default is new | not ours: the commit record comes before any default; but see `open.update` | halt |
 * | open, flip in order | any | the tables were being changed one after the other | roll back |
 * | committed | any | the change was not finished, or its rules were lost in a reboot | finish |
 */
export function decide({ open, defaults }: UnfinishedTransaction): Recovery {
  if (!open) return { do: 'check' };
  if (open.phase === 'committed') return { do: 'finish' };
  // With an endpoint update in flight the old program may have become equal to what the new one was.
  if (open.flip === 'switch' && !open.update && defaults.includes('new')) {
    const because =
      'the default rules in the kernel are those of an unconfirmed release: another program changed them, or the journal is out of date';
    return { do: 'halt', because };
  }
  return { do: 'roll-back' };
}

/**
 * Reads the input of `decide` from the kernel.
 * @param old the state to return to
 * @param next the state that the open transaction leads to, if it can be read
 */
export async function observeUnfinished(
  open: OpenTransaction | undefined,
  old: NodeState,
  next: NodeState | undefined,
  kernel: Kernel,
): Promise<UnfinishedTransaction> {
  const switchStates = await kernel.switch?.look();
  if (!open || !next) return { open, defaults: [], switchStates };
  const defaults: Default[] = [];
  for (const family of familyNames) {
    for (const table of tableNames) addAll(defaults, await defaultsOf(family, table, old, next, kernel));
  }
  return { open, defaults, switchStates };
}

async function defaultsOf(
  family: Family,
  table: TableName,
  old: NodeState,
  next: NodeState,
  kernel: Kernel,
): Promise<readonly Default[]> {
  const before = rootsOf(table, tableOf(old, family, table));
  const after = rootsOf(table, tableOf(next, family, table));
  const differing = treeEntries[table].filter((name) => before.get(name) !== after.get(name));
  if (differing.length === 0) return [];
  const actual = await kernel.observeChains(family, { [table]: differing });
  return differing.map((name) => {
    const rule = actual[table].get(name)?.find((line) => setOf(line) === undefined);
    const root = rule === undefined ? undefined : targetOf(rule);
    if (rule === undefined) return before.has(name) ? 'missing' : 'old';
    return root === before.get(name) ? 'old' : root === after.get(name) ? 'new' : 'foreign';
  });
}
