import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeRelease, printRelease, readReceipt, type Receipt, type Release, sumsOf } from '@sluice/bundle';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import type { Seal } from '../../inbox/files.ts';
import { runChildren } from '../../kernel/run.ts';
import type { PartialRelease } from '../../ports/journal.ts';
import { sampleBundle, sampleNode } from '../../testing/bundle.fixture.ts';
import { Receipts } from './receipts.ts';
import { ReceiptWriter } from './receipt-writer.ts';

/** A node that writes receipts, with an empty state and folder before each test. */

export const scratch = mkdtempSync(join(tmpdir(), 'sluiced-receipts-'));
export const state = join(scratch, 'state');
export const directory = join(scratch, 'receipts');
export const run = runChildren();
export const noon = Date.parse('2026-12-01T12:00:00Z');

export const files = sampleBundle();
export const release = madeRelease();
function madeRelease(): Release {
  const made = makeRelease(files, { serial: 42, source: 'c'.repeat(40) });
  if (!('serial' in made)) throw new Error(JSON.stringify(made));
  return made;
}
export const seal: Seal = {
  sums: sumsOf(files, printRelease(release)),
  release: printRelease(release),
  signatures: new Map(),
};
export const generation = {
  number: 3,
  revision: 0,
  version: '7'.repeat(16),
  state: { families: {}, sysctls: new Map() },
};

/** Why receipts were not written; undefined: one was. */
export const failures: (string | undefined)[] = [];
/** A new process each time: only the disk remembers. */
export function receiptWriter({
  nowMs = noon,
  keep = 32,
  stands = generation.number,
  partial = undefined as PartialRelease | undefined,
  draining = undefined as Receipt['draining'],
} = {}): ReceiptWriter {
  return new ReceiptWriter({
    receipts: new Receipts({ node: sampleNode, state, directory, keep }, run, () => nowMs),
    node: sampleNode,
    active: () => ({ ...generation, number: stands, partial }),
    serving: () => ({ mode: 'iptables', kubeProxy: 'absent' }),
    draining: () => draining,
    sluiced: '0.1.0',
    failed: (why) => void failures.push(why),
  });
}
/** The receipts of the folder, the oldest first. */
export const names = (): readonly string[] =>
  readdirSync(directory)
    .filter((name) => name.endsWith('.json'))
    .toSorted();
/** The newest receipt of the folder. */
export function newest(): Receipt {
  const read = readReceipt(readFileSync(join(directory, names().at(-1) as string), 'utf8'));
  if (typeof read === 'string') throw new Error(read);
  return read;
}
/** What ssh-keygen says of the newest receipt, as anybody would ask it. */
export function verified(line: string): string {
  writeFileSync(join(scratch, 'allowed_receipts'), `${line}\n`);
  const file = join(directory, names().at(-1) as string);
  const args = ['-Y', 'verify', '-f', join(scratch, 'allowed_receipts'), '-I', sampleNode, '-n', 'sluice-receipt'];
  return execFileSync('/usr/bin/ssh-keygen', [...args, '-s', `${file}.sig`], {
    input: readFileSync(file),
    encoding: 'utf8',
  });
}

/**
 * Empties the state and the folder before each test. To be called by each file of tests: several of them share this module in one process, where hooks of a module are those of the first one alone.
 */
export function withReceipts(): void {
  beforeAll(() => void mkdirSync(scratch, { recursive: true }));
  afterAll(() => rmSync(scratch, { recursive: true, force: true }));
  beforeEach(() => {
    for (const one of [state, directory]) rmSync(one, { recursive: true, force: true });
    failures.length = 0;
  });
}
