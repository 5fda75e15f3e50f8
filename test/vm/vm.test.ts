// @module-tag test
import { atTier, reaches } from '@sluice/testing';
import { expect, test } from 'vitest';
import { packetTestPrograms } from '../parity/binaries.ts';
import { build } from '../parity/build.ts';
import { bootGuest } from './guest.ts';
import { whyNoGuest } from './image.ts';
import { type GuestResult, runInGuest } from './suite.ts';

/**
 * Boots guests and runs in them what needs a kernel of its own: everything in `inside`, and the kernel contract, which so runs
 * on a second kernel. Each test of a guest counts as one here.
 */

/** What `vitest.config.ts` chose for this run. */
const files = (process.env['SLUICE_GUEST_FILES'] ?? '').split(' ');
/** An emulator uses one processor, and the machines that test have two: these files run in a guest of their own, beside the others. */
const second: ReadonlySet<string> = new Set(
  ['endpoints', 'kills', 'modes'].map((name) => `test/vm/inside/${name}.test.ts`),
);
/** Where other tests are at work, too, one guest is enough. */
const suites = (
  reaches('all') ? [files.filter((file) => !second.has(file)), files.filter((file) => second.has(file))] : [files]
).filter((suite) => suite.length > 0);
/** A soak kills at every step. */
const suitesMsMax = atTier({ quick: 25, soak: 60 }) * 60_000;

declare module 'vitest' {
  interface TaskMeta {
    /** Why the test failed in the guest before it passed at the second try there. */
    retriedInGuest?: string;
    /** The file that ran in the guest, and what it took there. */
    inGuest?: { readonly file: string; readonly seconds: number };
  }
}

const reason = whyNoGuest();
// The guest has no Go: what it is to have of the judges is built before it boots, and its tests skip themselves without them.
if (reason === undefined && files.some((file) => file.endsWith('/parity.test.ts')))
  for (const one of packetTestPrograms()) await build(one);
const found = reason === undefined ? (await Promise.all(suites.map(results))).flat() : [];

test('tests run in the emulated guest', ({ skip }) => {
  if (reason !== undefined) skip(reason);
  expect(found.length).toBeGreaterThan(0);
});

// What happened in the guest does not change when it is looked at again: the tries are there.
test.for(found)('$file: $name', { retry: 0 }, ({ file, fileSeconds, state, message }, { skip, task }) => {
  task.meta.inGuest = { file, seconds: fileSeconds };
  if (state === 'passed' && message !== '') task.meta.retriedInGuest = message.split('\n')[0] ?? '';
  if (state === 'skipped') skip('it skipped itself in the guest');
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
