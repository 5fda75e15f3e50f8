import { problemCodes } from '../problem.ts';
import { isSerial } from './release.ts';
import { isInstant } from './signers.ts';

/** How a change ended on a node. README.md, "Receipts", has the table. */
export const receiptOutcomes = ['confirmed', 'same', 'rolled-back', 'held', 'refused', 'chosen', 'removed'] as const;
export type ReceiptOutcome = (typeof receiptOutcomes)[number];

/** What one node says of one change: enough to decide whether others may follow, and nothing that must not leave the node. */
export interface Receipt {
  readonly node: string;
  /** Greater than that of every receipt of the node before. */
  readonly number: number;
  /** `YYYY-MM-DDTHH:MM:SSZ`, by the clock of the node. */
  readonly at: string;
  readonly outcome: ReceiptOutcome;
  /** What was to be put in; null where no release was, or none that could be believed. */
  readonly release: {
    readonly cluster: string;
    readonly serial: number;
    /** Of its `SHA256SUMS`. */
    readonly digest: string;
    /** Of the node's rules in it. */
    readonly version: string;
  } | null;
  /** What the kernel holds now; null before the first generation. */
  readonly standing: { readonly generation: number; readonly version: string } | null;
  /** Codes of problems, sorted. */
  readonly codes: readonly string[];
  /** Why, in words; null where all went well. */
  readonly because: string | null;
  /** The last answer of each probe in the trial, sorted by name. */
  readonly probes: readonly { readonly name: string; readonly healthy: boolean }[];
  /** The version of `sluiced`. */
  readonly sluiced: string;
}

export const receiptLimits = {
  bytesMax: 16 * 1024,
  becauseCharactersMax: 200,
  probesMax: 100,
  codesMax: 50,
} as const;

const subdomain = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;
const label = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;
const printable = /^[\x20-\x7e]*$/;
const plain = (value: unknown, most: number): value is string =>
  typeof value === 'string' && value !== '' && value.length <= most && printable.test(value);
const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
const isVersion = (value: unknown): boolean => typeof value === 'string' && /^[0-9a-f]{16}$/.test(value);
const isNodeName = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= 253 && subdomain.test(value);

type Checks = Readonly<Record<string, (value: unknown) => boolean>>;
const releaseChecks: Checks = {
  cluster: (value) => plain(value, 253),
  serial: isSerial,
  digest: (value) => typeof value === 'string' && /^[0-9a-f]{64}$/.test(value),
  version: isVersion,
};
// A generation of a node that rendered nothing itself has a version of another form: what stood before Sluice.
const standingChecks: Checks = { generation: isCount, version: (value) => plain(value, 64) };
const probeChecks: Checks = {
  name: (value) => typeof value === 'string' && label.test(value),
  healthy: (value) => typeof value === 'boolean',
};
const checks: Checks = {
  apiVersion: (value) => value === 'sluice.dev/v1alpha1',
  kind: (value) => value === 'Receipt',
  node: isNodeName,
  number: (value) => isCount(value) && value !== 0,
  at: (value) => typeof value === 'string' && isInstant(value),
  outcome: (value) => receiptOutcomes.includes(value as ReceiptOutcome),
  release: (value) => value === null || fits(value, releaseChecks),
  standing: (value) => value === null || fits(value, standingChecks),
  codes: (value) =>
    Array.isArray(value) &&
    value.length <= receiptLimits.codesMax &&
    value.every((code) => typeof code === 'string' && Object.hasOwn(problemCodes, code)),
  because: (value) => value === null || plain(value, receiptLimits.becauseCharactersMax),
  probes: (value) =>
    Array.isArray(value) && value.length <= receiptLimits.probesMax && value.every((one) => fits(one, probeChecks)),
  sluiced: (value) => plain(value, 64),
};

function fits(value: unknown, wanted: Checks): boolean {
  return misfitOf(value, wanted) === undefined;
}

/** The first key that is missing, not known or not what it must be. */
function misfitOf(value: unknown, wanted: Checks): string | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'it is no object';
  const strange = Object.keys(value).find((key) => !Object.hasOwn(wanted, key));
  if (strange !== undefined) return `it has a key that no receipt has`;
  const bad = Object.entries(wanted).find(([key, check]) => !check((value as Record<string, unknown>)[key]));
  return bad === undefined ? undefined : `${bad[0]} is not what it must be`;
}

/** The text of a receipt: JSON, keys in the order of README.md, so that equal receipts are equal bytes. */
export function printReceipt(receipt: Receipt): string {
  const { node, number, at, outcome, release, standing, codes, because, probes, sluiced } = receipt;
  const said = release && {
    cluster: release.cluster,
    serial: release.serial,
    digest: release.digest,
    version: release.version,
  };
  const stands = standing && { generation: standing.generation, version: standing.version };
  const answers = probes.map(({ name, healthy }) => ({ name, healthy }));
  const head = { apiVersion: 'sluice.dev/v1alpha1', kind: 'Receipt', node, number, at, outcome };
  const rest = { release: said, standing: stands, codes, because, probes: answers, sluiced };
  return `${JSON.stringify({ ...head, ...rest }, undefined, 2)}\n`;
}

/**
 * Reads a receipt. Where it came from is not trusted: only its exact form is taken, so no two texts are the same receipt.
 * @returns the receipt, or what is wrong with it, in words that quote nothing of it
 */
export function readReceipt(text: string): Receipt | string {
  if (text.length > receiptLimits.bytesMax) return `it is larger than ${receiptLimits.bytesMax} bytes`;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return 'it is no JSON';
  }
  const misfit = misfitOf(value, checks);
  if (misfit !== undefined) return misfit;
  const { apiVersion: _apiVersion, kind: _kind, ...receipt } = value as Receipt & Record<'apiVersion' | 'kind', string>;
  return printReceipt(receipt) === text ? receipt : 'it is not written as receipts are';
}

/** The file of a receipt; its signature has `.sig` behind it. */
export function receiptFile({ node, number }: Pick<Receipt, 'node' | 'number'>): string {
  return `${node}.${String(number).padStart(16, '0')}.json`;
}

/** The node and the number that the name of a file says; undefined for a file that is no receipt. */
export function readReceiptName(name: string): Pick<Receipt, 'node' | 'number'> | undefined {
  const [, node, digits] = /^(.+)\.(\d{16})\.json$/.exec(name) ?? [];
  const number = Number(digits);
  return isNodeName(node) && Number.isSafeInteger(number) ? { node, number } : undefined;
}

/** What a tool printed, in quotes that `withoutQuotes` finds: no other of their kind stands between them. */
export function quoted(said: string): string {
  return `"${said.replaceAll('"', "'")}"`;
}

/**
 * Words that may leave a node: what is in double quotes is what a probe was answered or a tool printed, and may hold anything, such as
 * quotes. So all from the first to the last goes, and all to the end where one lacks its partner, as in words that were cut.
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
