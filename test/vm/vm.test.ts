// @module-tag test
import { atTier, reaches } from '@sluice/testing';
import { expect, test } from 'vitest';
import { currentOfTier, guestParityPrograms, type Minor } from '../parity/binaries.ts';
import { build } from '../parity/build.ts';
import { type ComparedRun, mergedRun, writeRun } from '../parity/runs.ts';
import { bootGuest, type Guest } from './guest.ts';
import { whyNoGuest } from './image.ts';
import { reportTests } from './report-tests.ts';
import { type GuestResult, runInGuest } from './suite.ts';
import { bootUserMode, whyNoUserMode } from './user-mode.ts';

/**
 * Boots guests and runs the tests in them that need a kernel of their own: everything in `inside`, and the kernel contract, which thus
 * runs on a second kernel. Each test of a guest counts as one here.
 */

/** The files that `vitest.config.ts` chose for this run. */
const files = (process.env['SLUICE_GUEST_FILES'] ?? '').split(' ');
/** One guest, and what runs in it. */
interface Suite {
  readonly boot: () => Promise<Guest>;
  readonly files: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

const inside = (...names: readonly string[]): ReadonlySet<string> =>
  new Set(names.map((name) => `test/vm/inside/${name}.test.ts`));
/** Where it can run these are in a kernel in user mode, which is several times as fast. */
/** They are mode ipvs' share of tests of every mode. */
const shared: ReadonlySet<string> = new Set([
  'test/surroundings/surroundings.test.ts',
  'test/netns/node-promises.test.ts',
]);
const inUserMode: ReadonlySet<string> =
  whyNoUserMode() === undefined ? new Set([...inside('observed', 'parity'), ...shared]) : new Set();
/** An emulator uses one processor, and the test machines have two: these files run in a second guest in parallel. */
const second = inside('adopt', 'endpoints', 'kills', 'modes', 'take-over');
/** Where other tests run in parallel, too, one emulated guest is enough. */
const isSecond = (file: string): boolean => reaches('all') && second.has(file);
/** An emulated one is too slow for their bounds. */
const emulated = files.filter((file) => !inUserMode.has(file) && !shared.has(file));
const runDate = process.env['SLUICE_RUN_DATE'];
/** A soak compares so many clusters that two share them. */
const shards = atTier({ quick: ['0/1'], soak: ['0/2', '1/2'] });
const isParity = (file: string): boolean => file.endsWith('/parity.test.ts');
const legacy = { SLUICE_GUEST_STORE: 'legacy' };
const suites = [
  { boot: bootUserMode, files: files.filter((file) => inUserMode.has(file) && !isParity(file)), env: legacy },
  ...shards.map((shard) => ({
    boot: bootUserMode,
    files: files.filter((file) => inUserMode.has(file) && isParity(file)),
    env: { ...legacy, SLUICE_SHARD: shard, ...(runDate === undefined ? {} : { SLUICE_RUN_DATE: runDate }) },
  })),
  { boot: () => bootGuest(), files: emulated.filter((file) => !isSecond(file)) },
  { boot: () => bootGuest(), files: emulated.filter(isSecond) },
].filter((suite) => suite.files.length > 0);
/** A soak kills at every step, and compares 30 clusters with each kube-proxy. */
const suitesMsMax = atTier({ quick: 35, soak: 150 }) * 60_000;

const reason = whyNoGuest();
// The guest has no Go: the programs for comparison are built before it boots, and its tests skip themselves without them.
if (reason === undefined && files.some((file) => /\/(?:adopt|parity|observed|take-over)\.test\.ts$/.test(file)))
  for (const one of guestParityPrograms()) await build(one);
/** What guests compared in mode ipvs, by version: the files of the machine are not theirs. */
const compared = new Map<Minor, ComparedRun[]>();
const found = reason === undefined ? (await Promise.all(suites.map(results))).flat() : [];
for (const [minor, parts] of compared) if (parts.length === shards.length) writeRun(minor, mergedRun(parts));

test('tests run in guests', ({ skip }) => {
  if (reason !== undefined) skip(reason);
  expect(found.length).toBeGreaterThan(0);
});

reportTests(found);

async function results(suite: Suite): Promise<readonly GuestResult[]> {
  await using guest = await suite.boot();
  // Those of the checkout would look as if they had been made here.
  await guest.run('rm -f test/parity/runs/*-ipvs-*');
  const ended = await runInGuest(guest, suite.files, suitesMsMax, suite.env);
  for (const minor of suite.files.some(isParity) ? currentOfTier : []) {
    const run = await guest.get(`/sluice/test/parity/runs/${minor}-ipvs-clusters.json`).catch(() => undefined);
    if (run !== undefined)
      compared.set(minor, [...(compared.get(minor) ?? []), JSON.parse(run.toString('utf8')) as ComparedRun]);
  }
  return ended;
}
