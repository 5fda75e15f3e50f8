import type { TableName } from '../../family.ts';
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
