import type { Problem } from '../../problem.ts';
import type { TableName } from '../../family.ts';
import type { DispatchPlace } from './keys.ts';

/** One chain of a tree program. Its rules never change: other rules have another name. */
export interface TreeChain {
  /** 28 characters at most, with a tag at its end: `SLU-SVC-NPX46M4PTMTKRN6Y.1c`. */
  readonly name: string;
  /** Of its logical name and its rules, with the names of the chains they jump to; `readBack` computes the same. */
  readonly digest: string;
  /** Its rules as iptables-save prints them, each `-A <name> …`. */
  readonly rules: readonly string[];
  /** The depth of nested chains from this one to its deepest callee; 1 for a chain without jumps. */
  readonly height: number;
  /** The digest of a renamed chain; undefined for one with its natural name. */
  readonly renamedDigest: string | undefined;
  /** Replaces its rules by equal ones, to share memory. */
  hold(rules: readonly string[]): void;
}

/**
 * A desired table in layout `tree`.
 *
 * Its three parts change differently. Tagged chains are only added and removed; their names contain a digest of their rules.
 * Entry chains have only jumps to roots: `settledEntries` outside of probation.
 * Base chains are traversed by every packet in every switch state; a change of these is a transaction of its own.
 */
export interface TreeTable {
  /** By name, each after all chains that it jumps to: in this order they can be loaded. */
  readonly chains: ReadonlyMap<string, TreeChain>;
  /** The root of each entry chain, such as `SLUICE-SERVICES` → `SLUICE-R-…`. The same entry chains in every program. */
  readonly entries: ReadonlyMap<string, string>;
  /** Chains without a tag, each with its rules: `SLUICE-MARK-MASQ`, `SLUICE-POSTROUTING`, `SLUICE-FORWARD`, `SLUICE-FIREWALL`. */
  readonly baseChains: ReadonlyMap<string, readonly string[]>;
  /** Jumps from built-in chains to entry chains and base chains, in the kernel's order. */
  readonly jumps: readonly string[];
}

/** What one node runs for one family in layout `tree`. */
export type TreeProgram = Readonly<Record<TableName, TreeTable>>;

/** A rule of a base chain. */
export interface LinkedRule {
  readonly chain: string;
  readonly body: RuleBody;
  readonly place: DispatchPlace;
  /** The base chain that it jumps to; `body` ends before its name. */
  readonly calls?: string;
  /** Whether its target is terminal: accept, drop, reject, dnat, masquerade. */
  readonly isTerminal: boolean;
}

/** One table of one linked rule file. */
export interface TableUnit {
  /** The base chains that the file declares. */
  readonly bases: readonly string[];
  /** Tagged chains, each after those that it jumps to. */
  readonly chains: readonly TreeChain[];
  readonly base: readonly LinkedRule[];
  /** The base chains that its rules append to or jump to. */
  readonly named: readonly string[];
  readonly problems: readonly Problem[];
}

export type FileUnits = Readonly<Record<TableName, TableUnit>>;

/** A rule of a Service's chain, ready to be printed. */
export interface RuleBody {
  /** Without `-A <name> `. */
  readonly text: string;
  /** `TreeChain.height` of the chain that it jumps to; 0 for none. */
  readonly height: number;
  /** For a rule that selects an endpoint with some probability and has no other match. */
  readonly endpoint?: { readonly logical: string; readonly rule: EndpointRule; readonly chance: number };
}

/** A rule for an endpoint without its probability: `-p tcp ` and `-j DNAT …`, or nothing and `-j <chain>`. */
export interface EndpointRule {
  readonly match: string;
  readonly target: string;
}
