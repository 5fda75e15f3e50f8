import type { TableName } from '../family.ts';

/** A node's rules of one family before linking: all chains, then all rules, table by table. */
export type ResolvedRules = Readonly<
  Record<TableName, { readonly chains: readonly string[]; readonly rules: readonly string[] }>
>;

/** A table as the kernel should hold it: our chains in order, each with its rules (`-A CHAIN …`), and our jumps. */
export interface TableProgram {
  readonly chains: ReadonlyMap<string, readonly string[]>;
  /**
   * Jumps from built-in chains into ours, as `-A INPUT … -j KUBE-…`, in the kernel's order.
   */
  readonly jumps: readonly string[];
}

/** What one node runs for one family. */
export type FamilyProgram = Readonly<Record<TableName, TableProgram>>;

export const tableNames = ['filter', 'nat'] as const satisfies readonly TableName[];

export const emptyTable: TableProgram = { chains: new Map(), jumps: [] };
export const emptyProgram: FamilyProgram = { filter: emptyTable, nat: emptyTable };
