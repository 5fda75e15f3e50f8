import type { TableName } from '../../rulefile.ts';
import type { TreeChain, TreeTable } from './program.ts';

/** What leads from one tree program to another in one table, apart from entry chains, fixtures and jumps. */
export interface TreeChange {
  /** Chains that only the new program has, each behind those that it leads to. Nothing refers to them yet. */
  readonly stage: readonly TreeChain[];
  /** Names of chains that only the old program has, each before those that it leads to: in this order they can be deleted. */
  readonly collect: readonly string[];
}

/**
 * Compares two programs by the names of their chains, which say what is in them.
 * @param from what the kernel holds; null: none of our chains
 */
export function changeTree(from: TreeTable | null, to: TreeTable): TreeChange {
  const stage: TreeChain[] = [];
  for (const [name, chain] of to.chains) if (!from?.chains.has(name)) stage.push(chain);
  const collect: string[] = [];
  for (const name of from?.chains.keys() ?? []) if (!to.chains.has(name)) collect.push(name);
  return { stage, collect: collect.toReversed() };
}

/** How much one payload may hold. */
export interface BatchLimits {
  readonly chainsMax: number;
}

/**
 * `stage` in payloads of `iptables-restore --noflush`, in their order. With the nf_tables backend the time for one payload
 * grows with the square of its chains, so several are faster; the legacy backend copies the whole table for each, so one is.
 */
export function stagePayloads(table: TableName, stage: readonly TreeChain[], limits: BatchLimits): readonly string[] {
  const payloads: string[] = [];
  for (let at = 0; at < stage.length; at += limits.chainsMax) {
    payloads.push(payload(table, stage.slice(at, at + limits.chainsMax)));
  }
  return payloads;
}

function payload(table: TableName, chains: readonly TreeChain[]): string {
  const declared = chains.map(({ name }) => `:${name} - [0:0]\n`);
  return `*${table}\n${declared.join('')}${chains.map(({ rules }) => rules.map((rule) => `${rule}\n`).join('')).join('')}COMMIT\n`;
}

/**
 * `collect` in payloads, in their order. A chain that something still refers to cannot be deleted, so all chains of a payload
 * are emptied first; those of later payloads are only referred to by these.
 */
export function collectPayloads(table: TableName, collect: readonly string[], limits: BatchLimits): readonly string[] {
  const payloads: string[] = [];
  for (let at = 0; at < collect.length; at += limits.chainsMax) {
    const names = collect.slice(at, at + limits.chainsMax);
    const emptied = names.map((name) => `:${name} - [0:0]\n`).join('');
    payloads.push(`*${table}\n${emptied}${names.map((name) => `-X ${name}\n`).join('')}COMMIT\n`);
  }
  return payloads;
}
