import { addAll, type Family, type TableName, tableNames } from '@sluice/bundle';
import type { Kernel, SwitchState, OpenTransaction } from '../rollout/ports.ts';
import { familyNames, type NodeState, tableOf } from '../rollout/state.ts';
import { entryNames, rootsOf } from './entries.ts';

/** What the kernel falls back to in each table whose roots differ between the two programs. */
export type Default = 'old' | 'new' | 'missing' | 'foreign';

/** What is seen of a transaction that another process left. */
export interface Left {
  readonly open: Pick<OpenTransaction, 'phase' | 'flip' | 'update'> | undefined;
  readonly defaults: readonly Default[];
  /** undefined: there are no sets. */
  readonly switchStates: Readonly<Record<TableName, SwitchState>> | undefined;
}

/** What a process that starts does about it. Each is safe to repeat. */
export type Recovery =
  /** The kernel is held against the generation that stands, as at every scan; sets that nobody needs go. */
  | { readonly do: 'check' }
  /** The old program: from emptying the switch on. */
  | { readonly do: 'go-back' }
  /** The new program: from pinning the switch on. */
  | { readonly do: 'finish' }
  | { readonly do: 'hold'; readonly because: string };

/**
 * The recovery table. The journal says which program counts: the new one from its commit token on. What the kernel shows says only
 * how far the last process came, and the way from there is planned, so most rows are the same row; the one that is not cannot have
 * been made by this protocol.
 *
 * | journal | kernel | means |
 * |---|---|---|
 * | nothing open | any | settled, drifted, or lost in a reboot |
 * | open | all defaults old, or lost | a trial that did not end, expired or not |
 * | open, flip by the switch | a default is new | not ours: the token comes before any default; but see `open.update` |
 * | open, flip in order | any | the tables were being changed in turn |
 * | committed | any | the change was not finished, or was lost in a reboot |
 */
export function decide({ open, defaults }: Left): Recovery {
  if (!open) return { do: 'check' };
  if (open.phase === 'committed') return { do: 'finish' };
  // Newer endpoints that were on their way may have made the old program what the new one was.
  if (open.flip === 'switch' && !open.update && defaults.includes('new')) {
    const because =
      'the kernel falls back to rules that no journal entry confirms: somebody else changed them, or the journal is old';
    return { do: 'hold', because };
  }
  return { do: 'go-back' };
}

/** Reads what `decide` needs of the kernel. */
export async function look(
  open: OpenTransaction | undefined,
  old: NodeState,
  fresh: NodeState | undefined,
  kernel: Kernel,
): Promise<Left> {
  const switchStates = await kernel.switch?.look();
  if (!open || !fresh) return { open, defaults: [], switchStates };
  const defaults: Default[] = [];
  for (const family of familyNames) {
    for (const table of tableNames) addAll(defaults, await defaultsOf(family, table, old, fresh, kernel));
  }
  return { open, defaults, switchStates };
}

async function defaultsOf(
  family: Family,
  table: TableName,
  old: NodeState,
  fresh: NodeState,
  kernel: Kernel,
): Promise<readonly Default[]> {
  const before = rootsOf(table, tableOf(old, family, table));
  const after = rootsOf(table, tableOf(fresh, family, table));
  const differing = entryNames[table].filter((name) => before.get(name) !== after.get(name));
  if (differing.length === 0) return [];
  const seen = await kernel.observeChains(family, table, differing);
  return differing.map((name) => {
    const rule = seen.get(name)?.findLast((line) => !line.includes(' --match-set '));
    const root = rule === undefined ? undefined : / -g (\S+)$/.exec(rule)?.[1];
    if (rule === undefined) return before.has(name) ? 'missing' : 'old';
    return root === before.get(name) ? 'old' : root === after.get(name) ? 'new' : 'foreign';
  });
}
