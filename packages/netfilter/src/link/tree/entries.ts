import type { TableName } from '../../family.ts';
import { markingChain } from '../chains.ts';
import { baseChainName, entryChains, providedChains } from './base-chains.ts';
import type { TreeTable } from './program.ts';

/** The set that each table matches while a program is on probation. */
export const switches = { nat: 'SLUICE-N', filter: 'SLUICE-F' } as const satisfies Record<TableName, string>;

/**
 * The rules of every entry chain outside of probation: a goto to the root. No rule names a set, so the output of iptables-save loads on
 * any machine.
 */
export function settledEntries(program: Pick<TreeTable, 'entries'>): ReadonlyMap<string, readonly string[]> {
  return new Map([...program.entries].map(([entry, root]) => [entry, [`-A ${entry} -g ${root}`]]));
}

/** Whether layout `tree` makes chains of this name: entry chains and base chains (`SLUICE-…`), tagged chains (with a dot). */
export function isTreeChain(name: string): boolean {
  return name.startsWith('SLUICE-') || name.startsWith('SLU-');
}

/** The chains that lead from built-in chains to Services. */
export const treeEntries: Readonly<Record<TableName, readonly string[]>> = {
  filter: entryChains.filter.map(baseChainName),
  nat: entryChains.nat.map(baseChainName),
};

/** Whether a nat table is in layout `tree`. */
export const isNatOfTree = ({ chains }: { readonly chains: ReadonlyMap<string, unknown> }): boolean =>
  treeEntries.nat.some((name) => chains.has(name));

/** The chain that marks packets for masquerading; all programs call the same one. */
export const treeMarkingChain = baseChainName(markingChain);

/** Whether the name of a chain ends in a tag, which identifies its content: such a chain is added and removed, never changed. */
export const isTagged = (name: string): boolean => /^(SLU-|SLUICE-[RT]-).*\.[0-9a-z]{2}$/.test(name);

/** Whether a chain is the root of a program. */
export const isRoot = (name: string): boolean => name.startsWith('SLUICE-R');

/** Whether layout `tree` provides a chain under kube-proxy's name, which built-in chains jump to, too. */
export const isProvided = (name: string): boolean => providedChains.some((one) => one === name);
