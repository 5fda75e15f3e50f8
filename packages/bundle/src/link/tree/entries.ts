import type { TableName } from '../../rulefile.ts';
import type { TreeTable } from './program.ts';

/** The set that each table asks while a program is on trial. */
export const switches = { nat: 'SLUICE-N', filter: 'SLUICE-F' } as const satisfies Record<TableName, string>;

/**
 * The rules of every entry chain of a settled node: the way to the root and nothing else. No rule names a set, so what
 * iptables-save prints of a settled node loads on any machine.
 */
export function settledEntries(program: Pick<TreeTable, 'entries'>): ReadonlyMap<string, readonly string[]> {
  return new Map([...program.entries].map(([entry, root]) => [entry, [`-A ${entry} -g ${root}`]]));
}

/**
 * The rules of every entry chain while `trial` is on trial and `confirmed` is the default. A packet goes the way of `trial`
 * when the table's set holds its source: with a time-out in the set, that is the trial; with none (pinned), it is the
 * confirmation on its way; with an empty set, it is the way back.
 *
 * nat chooses one of the two. filter asks `trial` first and `confirmed` after it, because a packet may meet the switch on in
 * one table and off in the other: what one of the two filters rejects or drops still has a Service's own address, so the nat
 * of that program has not translated it, and a translated packet matches neither.
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

/** Whether a name is that of a chain that layout `tree` makes: entry chains and fixtures (`SLUICE-…`), tagged chains (with a dot). */
export function isTreeChain(name: string): boolean {
  return name.startsWith('SLUICE-') || name.startsWith('SLU-');
}
