import { problemCodes } from '@sluice/netfilter';
import { isSerial } from './release.ts';
import { isInstant } from './signers.ts';

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

/** What became of the kube-proxy of a node: `kept-away` by `sluiced adopt`, so that it does not return. */
const kubeProxyStates = ['runs', 'kept-away', 'absent'] as const;
type KubeProxyState = (typeof kubeProxyStates)[number];
const servingModes = ['iptables', 'ipvs', 'nftables'] as const;

/** Which programs serve the Services of a node. */
export interface Serving {
  /** Of Sluice's rules; null without any. */
  readonly mode: (typeof servingModes)[number] | null;
  readonly kubeProxy: KubeProxyState;
}

/** A node's report of one change: enough to decide about the next wave, and no data that must not leave the node. */
export interface Receipt {
  readonly node: string;
  /** Greater than that of every receipt of the node before. */
  readonly number: number;
  /** `YYYY-MM-DDTHH:MM:SSZ`, by the clock of the node. */
  readonly at: string;
  readonly outcome: ReceiptOutcome;
  /** The release that was to be applied; null without a release, or without a trusted one. */
  readonly release: {
    readonly cluster: string;
    readonly serial: number;
    /** Of its `SHA256SUMS`. */
    readonly digest: string;
    /** Of the node's rules in it. */
    readonly version: string;
  } | null;
  /** The active generation; null before the first one. */
  readonly standing: { readonly generation: number; readonly version: string } | null;
  /** Who serves; left out by a `sluiced` that did not say it yet. */
  readonly serving?: Serving;
  /** Codes of problems, sorted. */
  readonly codes: readonly string[];
  /** The reason in words; null after success. */
  readonly because: string | null;
  /** The last answer of each probe during probation, sorted by name. */
  readonly probes: readonly { readonly name: string; readonly healthy: boolean }[];
  /** The version of `sluiced`. */
  readonly sluiced: string;
}

/** Bounds of a receipt, which `sluice fleet` reads from files of others. */
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
// Generation 0, the rules before Sluice, has a version of another form.
const standingChecks: Checks = { generation: isCount, version: (value) => plain(value, 64) };
const servingChecks: Checks = {
  mode: (value) => value === null || servingModes.includes(value as (typeof servingModes)[number]),
  kubeProxy: (value) => kubeProxyStates.includes(value as KubeProxyState),
};
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
  serving: (value) => value === undefined || fits(value, servingChecks),
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
  return firstError(value, wanted) === undefined;
}

/** The error of the first key that is missing, unknown or invalid. */
function firstError(value: unknown, wanted: Checks): string | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'it is not an object';
  const strange = Object.keys(value).find((key) => !Object.hasOwn(wanted, key));
  if (strange !== undefined) return `it has an unknown key`;
  const bad = Object.entries(wanted).find(([key, check]) => !check((value as Record<string, unknown>)[key]));
  return bad === undefined ? undefined : `${bad[0]} is missing or has an invalid value`;
}

/** Prints a receipt: JSON, keys in the order of README.md, so that equal receipts give equal bytes. */
export function printReceipt(receipt: Receipt): string {
  const { node, number, at, outcome, release, standing, serving, codes, because, probes, sluiced } = receipt;
  const releasePart = release && {
    cluster: release.cluster,
    serial: release.serial,
    digest: release.digest,
    version: release.version,
  };
  const standingPart = standing && { generation: standing.generation, version: standing.version };
  const servingPart = serving && { mode: serving.mode, kubeProxy: serving.kubeProxy };
  const probesPart = probes.map(({ name, healthy }) => ({ name, healthy }));
  const head = { apiVersion: 'sluice.dev/v1alpha1', kind: 'Receipt', node, number, at, outcome };
  const rest = {
    release: releasePart,
    standing: standingPart,
    serving: servingPart,
    codes,
    because,
    probes: probesPart,
    sluiced,
  };
  return `${JSON.stringify({ ...head, ...rest }, undefined, 2)}\n`;
}

/**
 * Reads an untrusted receipt. Only the canonical form is accepted, so no two texts are the same receipt.
 * @returns the receipt, or the error in words that quote nothing of it
 */
export function readReceipt(text: string): Receipt | string {
  if (text.length > receiptLimits.bytesMax) return `it is larger than ${receiptLimits.bytesMax} bytes`;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return 'it is not JSON';
  }
  const misfit = firstError(value, checks);
  if (misfit !== undefined) return misfit;
  const { apiVersion: _apiVersion, kind: _kind, ...receipt } = value as Receipt & Record<'apiVersion' | 'kind', string>;
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
