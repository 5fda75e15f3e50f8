import { addAll } from '../add-all.ts';
import type { TableName } from '../family.ts';
import { insertions } from './change.ts';
import { type FamilyProgram, type TableProgram, tableNames } from './program.ts';

/**
 * The native text of a program, for `iptables-restore --noflush` (or `ip6tables-restore`): filter, then nat, each with its
 * chains, its rules, and the jumps as insertions that end up in the right order before foreign rules.
 *
 * For a host that does not have the program yet: loading it twice duplicates the jumps.
 */
export function printProgram(program: FamilyProgram): string {
  return tableNames.map((table) => printTable(table, program[table])).join('');
}

function printTable(table: TableName, { chains, jumps }: TableProgram): string {
  if (chains.size === 0 && jumps.length === 0) return '';
  const lines = [`*${table}`];
  for (const chain of chains.keys()) lines.push(`:${chain} - [0:0]`);
  for (const rules of chains.values()) for (const rule of rules) lines.push(rule);
  addAll(lines, [...insertions(jumps), 'COMMIT']);
  return `${lines.join('\n')}\n`;
}
