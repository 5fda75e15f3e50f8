// @module-tag all
import { atTier } from '@sluice/testing';
import { expect, test } from 'vitest';
import { guestParityPrograms } from '../parity/binaries.ts';
import { build } from '../parity/build.ts';
import { bootGuest } from './guest.ts';
import { whyNoGuest } from './image.ts';
import { reportTests } from './report-tests.ts';
import { runSuite, type Suite } from './suite.ts';

/**
 * Boots emulated guests and runs the tests there that need a kernel of their own with nf_tables (`where.ts`), and the kernel contract, which
 * thus runs on a third kernel. Each test of a guest counts as one here.
 */

/** The files that `vitest.config.ts` chose for this run. */
const files = (process.env['SLUICE_GUEST_FILES'] ?? '').split(' ');
/** An emulator uses one processor, and the test machines have two: these files run in a second guest in parallel. */
const isSecond = (file: string): boolean => /inside\/(?:adopt|endpoints|kills|modes|take-over)\.test\.ts$/.test(file);
const suites: readonly Suite[] = [
  { boot: () => bootGuest(), files: files.filter((file) => !isSecond(file)) },
  { boot: () => bootGuest(), files: files.filter(isSecond) },
].filter((suite) => suite.files.length > 0);
/** A soak kills at every step. */
const suitesMsMax = atTier({ quick: 35, soak: 150 }) * 60_000;

const reason = whyNoGuest();
// The guest has no Go: the programs for comparison are built before it boots, and its tests skip themselves without them.
if (reason === undefined && files.some((file) => /\/(?:adopt|take-over)\.test\.ts$/.test(file)))
  for (const one of guestParityPrograms()) await build(one);
const found =
  reason === undefined ? (await Promise.all(suites.map((suite) => runSuite(suite, suitesMsMax)))).flat() : [];

test('tests run in guests', ({ skip }) => {
  if (reason !== undefined) skip(reason);
  expect(found.length).toBeGreaterThan(0);
});

reportTests(found);
