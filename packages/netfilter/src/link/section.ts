import type { TableName } from '../family.ts';

/** One table of a file resolved for one node, still with `${host.*}`. */
export interface ResolvedSection {
  readonly table: TableName;
  readonly chains: readonly string[];
  readonly rules: readonly string[];
}

/** The resolved sections of one file. */
export type FileSections = readonly ResolvedSection[];

/** A section in the syntax of `iptables-restore`, without counters. */
export function printSection(section: ResolvedSection): string {
  const chains = section.chains.map((chain) => `:${chain} - [0:0]\n`).join('');
  return `*${section.table}\n${chains}${section.rules.map((rule) => `${rule}\n`).join('')}COMMIT\n`;
}
