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

/**
 * The rules of every entry chain while `trial` is on probation and `confirmed` is the default. A packet traverses `trial` when the table's
 * set contains its source. The set's element has a time-out during probation, none (pinned) during the confirmation, and is removed by
 * a rollback.
 *
 * nat chooses one of the two. filter jumps to `trial` and then to `confirmed`, because a packet may find the switch on in one table
 * and off in the other: a packet that either filter rejects or drops still has a Service's own address, so the nat of that program
 * has not translated it, and a translated packet matches neither.
 */
export function trialEntries(
  table: TableName,
  confirmed: TreeTable,
  trial: TreeTable,
): ReadonlyMap<string, readonly string[]> {
  const entries = new Map<string, readonly string[]>();
  const go = table === 'nat' ? '-g' : '-j';
  for (const [entry, root] of trial.entries) {
    const usual = confirmed.entries.get(entry);
    const tried = `-A ${entry} -m set --match-set ${switches[table]} src ${go} ${root}`;
    entries.set(entry, usual === undefined ? [tried] : [tried, `-A ${entry} -g ${usual}`]);
  }
  return entries;
}

/** Whether layout `tree` makes chains of this name: entry chains and base chains (`SLUICE-…`), tagged chains (with a dot). */
export function isTreeChain(name: string): boolean {
  return name.startsWith('SLUICE-') || name.startsWith('SLU-');
}
