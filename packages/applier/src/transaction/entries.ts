import { type TableName, type TableProgram } from '@sluice/bundle';
import type { NodeState } from '../rollout/state.ts';

/** The chains that layout `tree` hangs into the built-in ones and that lead to Services. packages/bundle/src/link/tree/fixtures.ts. */
export const entryNames: Readonly<Record<TableName, readonly string[]>> = {
  filter: ['SLUICE-SERVICES', 'SLUICE-EXTERNAL-SERVICES', 'SLUICE-NODEPORTS', 'SLUICE-PROXY-FIREWALL'],
  nat: ['SLUICE-SERVICES'],
};

/** Whether a state is in layout `tree`. */
export function isTree(state: Pick<NodeState, 'families'>): boolean {
  return Object.values(state.families).some((program) => program.nat.chains.has('SLUICE-SERVICES'));
}

/** Whether a chain has a tag at the end of its name, which says its content: it is added and removed, never changed. */
export function isTagged(name: string): boolean {
  return /^(SLU-|SLUICE-[RT]-).*\.[0-9a-z]{2}$/.test(name);
}

/** The roots of a settled program by their entry chain; an entry chain without a root is left out. */
export function rootsOf(table: TableName, { chains }: TableProgram): ReadonlyMap<string, string> {
  const roots = new Map<string, string>();
  for (const entry of entryNames[table]) {
    const root = / -g (SLUICE-R\S+)$/.exec(chains.get(entry)?.at(-1) ?? '')?.[1];
    if (root !== undefined) roots.set(entry, root);
  }
  return roots;
}
