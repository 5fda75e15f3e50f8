import type { TableName, TableProgram } from '@sluice/netfilter';
import type { NodeState } from '../ports/node-state.ts';

/** The chains of layout `tree` that lead from built-in chains to Services; declared in packages/netfilter/src/link/tree. */
export const entryNames: Readonly<Record<TableName, readonly string[]>> = {
  filter: ['SLUICE-SERVICES', 'SLUICE-EXTERNAL-SERVICES', 'SLUICE-NODEPORTS', 'SLUICE-PROXY-FIREWALL'],
  nat: ['SLUICE-SERVICES'],
};

/** Whether a state is in layout `tree`. */
export function isTree(state: Pick<NodeState, 'families'>): boolean {
  return Object.values(state.families).some((program) => program.nat.chains.has('SLUICE-SERVICES'));
}

/** Whether the name of a chain ends in a tag, which identifies its content: such a chain is added and removed, never changed. */
export function isTagged(name: string): boolean {
  return /^(SLU-|SLUICE-[RT]-).*\.[0-9a-z]{2}$/.test(name);
}

/** The roots of a program, outside of a transaction, by entry chain; an entry chain without a root is left out. */
export function rootsOf(table: TableName, { chains }: TableProgram): ReadonlyMap<string, string> {
  const roots = new Map<string, string>();
  for (const entry of entryNames[table]) {
    const root = / -g (SLUICE-R\S+)$/.exec(chains.get(entry)?.at(-1) ?? '')?.[1];
    if (root !== undefined) roots.set(entry, root);
  }
  return roots;
}
