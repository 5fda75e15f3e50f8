import { modes, problemCodes } from '@sluice/netfilter';
import {
  type Checked,
  type CheckedMap,
  checkOf,
  hexOf,
  isCount,
  isFlag,
  isInstant,
  isNodeName,
  listOf,
  oneOf,
  optional,
  orNull,
  plainOf,
  shape,
  textOf,
} from '../checks.ts';
import { printJson, readJson } from '../documents.ts';
import { isSerial } from './release.ts';

/** The outcome of a change on a node. README.md, "Receipts", has the table. */
export const receiptOutcomes = [
  'confirmed',
  'same',
  'partial',
  'rolled-back',
  'held',
  'refused',
  'chosen',
  'removed',
] as const;
export type ReceiptOutcome = (typeof receiptOutcomes)[number];

/** Bounds of a receipt, which `sluice fleet` reads from files of others. */
export const receiptLimits = {
  bytesMax: 16 * 1024,
  becauseCharactersMax: 200,
  probesMax: 100,
  codesMax: 50,
} as const;

const serving = shape({
  /** Of Sluice's rules; null without any. */
  mode: oneOf(null, ...modes),
  /** `kept-away`: by `sluiced adopt`, so that it does not return. */
  kubeProxy: oneOf('runs', 'kept-away', 'absent'),
});
/** Which programs serve the Services of a node. */
export type Serving = Checked<typeof serving>;

const checks = {
  node: isNodeName,
  /** Greater than that of every receipt of the node before. */
  number: checkOf<number>((value) => isCount(value) && value !== 0),
  /** By the clock of the node. */
  at: isInstant,
  outcome: oneOf(...receiptOutcomes),
  /** The release that was to be applied; null without a release, or without a trusted one. */
  release: orNull(
    shape({
      cluster: plainOf(253),
      serial: isSerial,
      /** Of its `SHA256SUMS`. */
      digest: hexOf(64),
      /** Of the node's rules in it. */
      version: hexOf(16),
    }),
  ),
  /** The active generation; null before the first one. Generation 0, the rules before Sluice, has a version of another form. */
  standing: orNull(shape({ generation: isCount, version: plainOf(64) })),
  /** Who serves; left out by a `sluiced` that did not say it yet. */
  serving: optional(serving),
  /** Who drains the node; left out where it is not drained. */
  draining: optional(oneOf('operator', 'shutdown')),
  /** Codes of problems, sorted. */
  codes: listOf(
    checkOf<string>((value) => typeof value === 'string' && Object.hasOwn(problemCodes, value)),
    receiptLimits.codesMax,
  ),
  /** The reason in words; null after success. */
  because: orNull(plainOf(receiptLimits.becauseCharactersMax)),
  /** The last answer of each probe during probation, sorted by name. */
  probes: listOf(
    shape({ name: textOf(/^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/, 63), healthy: isFlag }),
    receiptLimits.probesMax,
  ),
  /** The version of `sluiced`. */
  sluiced: plainOf(64),
};

/** A node's report of one change: enough to decide about the next wave, and no data that must not leave the node. */
export type Receipt = CheckedMap<typeof checks>;

/** Prints a receipt: JSON, keys in the order of README.md, so that equal receipts give equal bytes. */
export const printReceipt = (receipt: Receipt): string =>
  printJson('Receipt', receipt, [
    ...Object.keys(checks),
    'cluster',
    'serial',
    'digest',
    'generation',
    'version',
    'mode',
    'kubeProxy',
    'name',
    'healthy',
  ]);

/**
 * Reads an untrusted receipt. Only the canonical form is accepted, so no two texts are the same receipt.
 * @returns the receipt, or the error in words that quote no value of it
 */
export function readReceipt(text: string): Receipt | string {
  if (text.length > receiptLimits.bytesMax) return `it is larger than ${receiptLimits.bytesMax} bytes`;
  const receipt = readJson(text, 'Receipt', checks);
  if (typeof receipt === 'string') return receipt;
  return printReceipt(receipt) === text ? receipt : 'it is not in canonical form';
}

/** The file name of a receipt; that of its signature ends with `.sig`. */
export function receiptFile({ node, number }: Pick<Receipt, 'node' | 'number'>): string {
  return `${node}.${String(number).padStart(16, '0')}.json`;
}

/** The node and the number in a file name; undefined for other files than receipts. */
export function readReceiptName(name: string): Pick<Receipt, 'node' | 'number'> | undefined {
  const [, node, digits] = /^(.+)\.(\d{16})\.json$/.exec(name) ?? [];
  const number = Number(digits);
  return isNodeName(node) && Number.isSafeInteger(number) ? { node, number } : undefined;
}

/** The output of a tool in double quotes for `withoutQuotes`, with any inside replaced by single ones. */
export function quoted(output: string): string {
  return `"${output.replaceAll('"', "'")}"`;
}

/**
 * Removes data that must not leave a node: text in double quotes is the answer to a probe or the output of a tool, and may contain
 * anything, even quotes. So all from the first to the last quote is removed, and all to the end where a quote is unpaired, as in
 * truncated text.
 * @returns at most `receiptLimits.becauseCharactersMax` printable characters; null for none
 */
export function withoutQuotes(words: string): string | null {
  const isPaired = words.split('"').length % 2 === 1;
  const open = words
    .replace(isPaired ? /".*"/s : /".*/s, '…')
    .replaceAll(/[^\x20-\x7e]+/g, ' ')
    .replaceAll(/ +/g, ' ')
    .trim();
  const most = receiptLimits.becauseCharactersMax;
  return open === '' ? null : open.slice(0, most).trim();
}
