// @module-tag test
import { atTier, reaches } from '@sluice/testing';
import { expect, test } from 'vitest';
import { packetTestPrograms } from '../parity/binaries.ts';
import { build } from '../parity/build.ts';
import { bootGuest } from './guest.ts';
import { whyNoGuest } from './image.ts';
import { type GuestResult, runInGuest } from './suite.ts';

/**
 * Boots guests and runs the tests in them that need a kernel of their own: everything in `inside`, and the kernel contract, which thus
 * runs on a second kernel. Each test of a guest counts as one here.
 */

/** The files that `vitest.config.ts` chose for this run. */
const files = (process.env['SLUICE_GUEST_FILES'] ?? '').split(' ');
/** An emulator uses one processor, and the test machines have two: these files run in a second guest in parallel. */
const second: ReadonlySet<string> = new Set(
  ['endpoints', 'kills', 'modes'].map((name) => `test/vm/inside/${name}.test.ts`),
);
/** Where other tests run in parallel, too, one guest is enough. */
const suites = (
  reaches('all') ? [files.filter((file) => !second.has(file)), files.filter((file) => second.has(file))] : [files]
).filter((suite) => suite.length > 0);
/** A soak kills at every step. */
const suitesMsMax = atTier({ quick: 25, soak: 60 }) * 60_000;

declare module 'vitest' {
  interface TaskMeta {
    /** The cause of the test's first failure in the guest, if it passed at the second attempt there. */
    retriedInGuest?: string;
    /** The file that ran in the guest, and its duration there. */
    inGuest?: { readonly file: string; readonly seconds: number };
  }
}

const reason = whyNoGuest();
// The guest has no Go: the programs for comparison are built before it boots, and its tests skip themselves without them.
if (reason === undefined && files.some((file) => file.endsWith('/parity.test.ts')))
  for (const one of packetTestPrograms()) await build(one);
const found = reason === undefined ? (await Promise.all(suites.map(results))).flat() : [];

test('tests run in the emulated guest', ({ skip }) => {
  if (reason !== undefined) skip(reason);
  expect(found.length).toBeGreaterThan(0);
});

// A retry here would repeat the same result: the retries are in the guest.
test.for(found)('$file: $name', { retry: 0 }, ({ file, fileSeconds, state, message }, { skip, task }) => {
  task.meta.inGuest = { file, seconds: fileSeconds };
  if (state === 'passed' && message !== '') task.meta.retriedInGuest = message.split('\n')[0] ?? '';
  if (state === 'skipped') skip('skipped in the guest');
  expect(state === 'passed' ? '' : message).toBe('');
  expect(state).toBe('passed');
});

async function results(suite: readonly string[]): Promise<readonly GuestResult[]> {
  await using guest = await bootGuest();
  const started = performance.now();
  const ended = await runInGuest(guest, suite, suitesMsMax);
  const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
  const tests = `tests of ${suite.length} files took ${seconds(performance.now() - started)}`;
  process.stdout.write(`guest: booted in ${seconds(guest.bootMs)}, ${tests}\n`);
  return ended;
}
