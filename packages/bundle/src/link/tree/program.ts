import type { TableName } from '../../rulefile.ts';
import type { PackedPlace } from '../packed.ts';

/** One chain of a tree program. Its content never changes: another content has another name. */
export interface TreeChain {
  /** 28 characters at most, with a tag at its end: `SLU-SVC-NPX46M4PTMTKRN6Y.1c`. */
  readonly name: string;
  /** Of its logical name and its rules, with the names of the chains they lead to: what `readBack` computes, too. */
  readonly digest: string;
  /** Its rules as iptables-save prints them, each `-A <name> …`. */
  readonly rules: readonly string[];
  /** How many chains a packet can be deep in when it is in this chain's deepest callee; 1 for a chain that calls none. */
  readonly height: number;
  /** The digest, unless the name is the first choice of its content. */
  readonly renamedDigest: string | undefined;
  /** Holds these rules, which are the same, in place of its own. */
  hold(rules: PackedPlace | readonly string[]): void;
}

/**
 * A table as the kernel should hold it in layout `tree`.
 *
 * Three parts change in three ways. Tagged chains are only ever added and removed, under names that say their content.
 * Entry chains hold nothing but the way to a root: `entryRules` prints them settled, or on trial between two programs.
 * Fixtures are what every packet meets whatever the switch says; a change of these is a transaction of its own.
 */
export interface TreeTable {
  /** By name, each behind all chains that it leads to: in this order they can be loaded. */
  readonly chains: ReadonlyMap<string, TreeChain>;
  /** The root of each entry chain, such as `SLUICE-SERVICES` → `SLUICE-R-…`. The same entry chains in every program. */
  readonly entries: ReadonlyMap<string, string>;
  /** Chains without a tag, each with its rules: `SLUICE-MARK-MASQ`, `SLUICE-POSTROUTING`, `SLUICE-FORWARD`, `SLUICE-FIREWALL`. */
  readonly baseChains: ReadonlyMap<string, readonly string[]>;
  /** Rules in built-in chains that lead to entry chains and fixtures, in the order in which they stand in the kernel. */
  readonly jumps: readonly string[];
}

/** What one node runs for one family in layout `tree`. */
export type TreeProgram = Readonly<Record<TableName, TreeTable>>;
