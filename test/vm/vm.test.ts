// @module-tag test
import { atTier, reaches } from '@sluice/testing';
import { expect, test } from 'vitest';
import { guestParityPrograms } from '../parity/binaries.ts';
import { build } from '../parity/build.ts';
import { bootGuest } from './guest.ts';
import { whyNoGuest } from './image.ts';
import { reportTests } from './report-tests.ts';
import { type GuestResult, runInGuest } from './suite.ts';

/**
 * Boots guests and runs the tests in them that need a kernel of their own: everything in `inside`, and the kernel contract, which thus
 * runs on a second kernel. Each test of a guest counts as one here.
 */

/** The files that `vitest.config.ts` chose for this run. */
const files = (process.env['SLUICE_GUEST_FILES'] ?? '').split(' ');
/** An emulator uses one processor, and the test machines have two: these files run in a second guest in parallel. */
const second: ReadonlySet<string> = new Set(
  ['adopt', 'endpoints', 'kills', 'modes'].map((name) => `test/vm/inside/${name}.test.ts`),
);
/** Where other tests run in parallel, too, one guest is enough. */
const suites = (
  reaches('all') ? [files.filter((file) => !second.has(file)), files.filter((file) => second.has(file))] : [files]
).filter((suite) => suite.length > 0);
/** A soak kills at every step. */
const suitesMsMax = atTier({ quick: 35, soak: 60 }) * 60_000;

const reason = whyNoGuest();
// The guest has no Go: the programs for comparison are built before it boots, and its tests skip themselves without them.
if (reason === undefined && files.some((file) => /\/(?:adopt|parity|observed)\.test\.ts$/.test(file)))
  for (const one of guestParityPrograms()) await build(one);
const found = reason === undefined ? (await Promise.all(suites.map(results))).flat() : [];

test('tests run in the emulated guest', ({ skip }) => {
  if (reason !== undefined) skip(reason);
  expect(found.length).toBeGreaterThan(0);
});

reportTests(found);

async function results(suite: readonly string[]): Promise<readonly GuestResult[]> {
  await using guest = await bootGuest();
  return await runInGuest(guest, suite, suitesMsMax);
}
