import type { TableName } from '../../family.ts';
import type { TreeChain, TreeTable } from './program.ts';

/** The change from one tree program to another in one table, without entry chains, base chains and jumps. */
export interface TreeChange {
  /** Chains that only the new program has, each after those that it jumps to. Nothing refers to them yet. */
  readonly stage: readonly TreeChain[];
  /** Names of chains that only the old program has, each before those that it jumps to: in this order they can be deleted. */
  readonly remove: readonly string[];
}

/**
 * Compares two programs by the names of their chains, which are digests of their rules.
 * @param from the table in the kernel; null: none of our chains
 */
export function changeTree(from: TreeTable | null, to: TreeTable): TreeChange {
  const stage: TreeChain[] = [];
  for (const [name, chain] of to.chains) if (!from?.chains.has(name)) stage.push(chain);
  const remove: string[] = [];
  for (const name of from?.chains.keys() ?? []) if (!to.chains.has(name)) remove.push(name);
  return { stage, remove: remove.toReversed() };
}

export interface BatchLimits {
  readonly chainsMax: number;
}

/**
 * Splits `stage` into payloads of `iptables-restore --noflush`, in order. With the nf_tables backend the time for one payload grows with
 * the square of its chains, so several are faster; the legacy backend copies the whole table for each payload, so one is.
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
 * Splits `remove` into payloads, in order. A chain with references to it cannot be deleted, so all chains of a payload are emptied
 * first; only these refer to the chains of later payloads.
 */
export function removalPayloads(table: TableName, names: readonly string[], limits: BatchLimits): readonly string[] {
  const payloads: string[] = [];
  for (let at = 0; at < names.length; at += limits.chainsMax) {
    const batch = names.slice(at, at + limits.chainsMax);
    const emptied = batch.map((name) => `:${name} - [0:0]\n`).join('');
    payloads.push(`*${table}\n${emptied}${batch.map((name) => `-X ${name}\n`).join('')}COMMIT\n`);
  }
  return payloads;
}
