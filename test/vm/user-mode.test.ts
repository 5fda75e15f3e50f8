// @module-tag test
import { atTier } from '@sluice/testing';
import { expect, test } from 'vitest';
import { currentOfTier, guestParityPrograms, type Minor } from '../parity/binaries.ts';
import { build } from '../parity/build.ts';
import { type ComparedRun, mergedRun, writeRun } from '../parity/runs.ts';
import type { Guest } from './guest.ts';
import { reportTests } from './report-tests.ts';
import { type GuestResult, runSuite, type Suite } from './suite.ts';
import { bootUserMode, whyNoUserMode } from './user-mode.ts';

/**
 * Boots kernels in user mode and runs the tests there that need mode ipvs and are not about nf_tables (`where.ts`), and the kernel
 * contract, which thus runs on a second kernel. Each test there counts as one here.
 */

/** The files that `vitest.config.ts` chose for this run. */
const files = (process.env['SLUICE_USER_MODE_FILES'] ?? '').split(' ').filter((file) => file !== '');
const asked = ['SLUICE_RUN_DATE', 'SLUICE_KUBE_PROXY', 'SLUICE_SURROUNDINGS'].flatMap((name) => {
  const value = process.env[name];
  return value === undefined ? [] : [[name, value] as const];
});
/** A soak compares so many clusters that two kernels share them. */
const shards = atTier({ quick: ['0/1'], soak: ['0/2', '1/2'] });
const isParity = (file: string): boolean => file.endsWith('/parity.test.ts');
const env = { SLUICE_GUEST_STORE: 'legacy', ...Object.fromEntries(asked) };
const suites: readonly Suite[] = [
  { boot: bootUserMode, files: files.filter((file) => !isParity(file)), env },
  ...shards.map((shard) => ({
    boot: bootUserMode,
    files: files.filter(isParity),
    env: { ...env, SLUICE_SHARD: shard },
    atEnd: keepRuns,
  })),
].filter((suite) => suite.files.length > 0);
/** A soak compares 30 clusters with each kube-proxy. */
const suitesMsMax = atTier({ quick: 35, soak: 150 }) * 60_000;

let reason = whyNoUserMode();
// There is no Go there: the programs for comparison are built before, and tests skip themselves without them.
if (reason === undefined && files.some((file) => /\/(?:parity|observed)\.test\.ts$/.test(file)))
  for (const one of guestParityPrograms()) await build(one);
/** What was compared in mode ipvs, by version: the files of the machine are not theirs. */
const compared = new Map<Minor, ComparedRun[]>();
const found: readonly GuestResult[] = reason === undefined ? await results() : [];

async function results(): Promise<readonly GuestResult[]> {
  try {
    return (await Promise.all(suites.map((suite) => runSuite(suite, suitesMsMax)))).flat();
  } catch (error) {
    if (!String(error).includes('ptrace set fp regs failed')) throw error;
    reason = 'the kernel in user mode has no room for all registers of this processor';
    return [];
  }
}

for (const [minor, parts] of compared) if (parts.length === shards.length) writeRun(minor, mergedRun(parts));

test('tests run in a kernel in user mode', ({ skip }) => {
  if (reason !== undefined) skip(reason);
  expect(found.length).toBeGreaterThan(0);
});

reportTests(found);

async function keepRuns(guest: Guest): Promise<void> {
  for (const minor of currentOfTier) {
    const run = await guest.get(`/sluice/test/parity/runs/${minor}-ipvs-clusters.json`).catch(() => undefined);
    if (run !== undefined)
      compared.set(minor, [...(compared.get(minor) ?? []), JSON.parse(run.toString('utf8')) as ComparedRun]);
  }
}
