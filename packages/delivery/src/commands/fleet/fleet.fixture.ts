import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeKey, publicKeyOf, signBy } from '@sluice/testing';
import { fileDigest, printReceipt, type Receipt, receiptFile, type ReceiptOutcome, readRelease } from '@sluice/bundle';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { sluice } from '../../../../sluice/src/in-process.fixture.ts';

/** A release of two waves for two nodes, made again before each test, and the keys that sign. */

const root = join(import.meta.dirname, '../../../../..');
export const scratch = mkdtempSync(join(tmpdir(), 'sluice-fleet-'));
export const at = (...names: readonly string[]): string => join(scratch, ...names);
export const [bundle, release, receipts, allowed] = [
  at('bundle'),
  at('release'),
  at('receipts'),
  at('allowed_receipts'),
];

/** Signs a text with the key of a name. */
export const sign = (text: string, name: string, namespace = 'sluice-receipt'): string =>
  signBy(at(name), namespace, text);
/** The line of a node in `allowed_receipts`. */
export const lineOf = (name: string, key = name): string =>
  `${name} namespaces="sluice-receipt" ${publicKeyOf(at(key))}\n`;

/** What a receipt says besides the usual, and whose key signs it. */
interface Word extends Partial<Receipt> {
  readonly by?: string;
  readonly namespace?: string;
  /** The name of the file; default: that of the receipt. */
  readonly file?: string;
}
/** Writes a signed receipt to the folder. */
export function say(
  node: string,
  outcome: ReceiptOutcome,
  { by = node, namespace = 'sluice-receipt', file, ...rest }: Word = {},
): string {
  const sums = readFileSync(join(release, 'SHA256SUMS'), 'utf8');
  const made = readRelease(readFileSync(join(release, 'release.yaml'), 'utf8'));
  if ('code' in made) throw new Error(made.message);
  const receipt: Receipt = {
    node,
    number: 10,
    at: '2026-12-01T12:00:00Z',
    outcome,
    release: { cluster: made.cluster, serial: made.serial, digest: fileDigest(sums), version: '8'.repeat(16) },
    standing: { generation: 2, version: '8'.repeat(16) },
    codes: [],
    because: null,
    probes: [],
    sluiced: '0.1.0',
    ...rest,
  };
  const path = join(receipts, file ?? receiptFile(receipt));
  writeFileSync(path, printReceipt(receipt));
  writeFileSync(`${path}.sig`, sign(printReceipt(receipt), by, namespace));
  return path;
}
/** Runs `sluice release` of the bundle with its waves. @param source a commit */
export const releaseOf = (source: string) =>
  sluice('release', bundle, '--serial', 'auto', '--source', source, '--wave', at('waves.yaml'), '-o', release);
/** Runs `sluice fleet` about the release. */
export const fleet = (...more: readonly string[]) =>
  sluice('fleet', receipts, '--allowed-receipts', allowed, '--release', release, ...more);
/** Runs `sluice promote` for the release. */
export const promote = (...more: readonly string[]) =>
  sluice('promote', release, '--receipts', receipts, '--allowed-receipts', allowed, '--key', at('waves'), ...more);
/** What `sluice fleet` says about each node. */
export async function states(): Promise<string> {
  const { nodes } = JSON.parse((await fleet('-o', 'json')).stdout) as {
    nodes: { node: string; state: string; why: string | null }[];
  };
  return nodes
    .toSorted((a, b) => (a.node < b.node ? -1 : 1))
    .map(({ node, state, why }) => `${node} ${state}${why === null ? '' : `: ${why}`}`)
    .join(' | ');
}

/**
 * Makes the keys, and a release before each test. To be called by each file of tests: several of them share this module in one process, where hooks of a module are those of the first one alone.
 */
export function withFleet(): void {
  beforeAll(() => {
    mkdirSync(scratch, { recursive: true });
    for (const name of ['node-1', 'node-2', 'mallory', 'waves']) makeKey(at(name));
  });
  afterAll(() => rmSync(scratch, { recursive: true, force: true }));
  beforeEach(async () => {
    for (const dir of [bundle, release, receipts]) rmSync(dir, { recursive: true, force: true });
    mkdirSync(receipts);
    cpSync(join(root, 'examples/10-ipvs/out'), bundle, { recursive: true });
    // `.sluice-complete` is not in Git, and a work tree does not need it.
    rmSync(join(bundle, '.sluice-complete'), { force: true });
    execFileSync('/usr/bin/git', ['init', '-q', bundle]);
    writeFileSync(
      at('waves.yaml'),
      'apiVersion: sluice.dev/v1alpha1\nkind: Waves\nwaves: [{name: canary, nodes: [node-1]}, {name: others, nodes: rest}]\n',
    );
    writeFileSync(allowed, lineOf('node-1') + lineOf('node-2'));
    const made = await releaseOf('c'.repeat(40));
    if (made.status !== 0) throw new Error(made.stderr);
  });
}
