import { seed, tier } from '@sluice/testing';
import { type Guest, guestPrograms } from './guest.ts';

/** The result of one test in the guest. */
export interface GuestResult {
  /** Below the checkout. */
  readonly file: string;
  readonly name: string;
  readonly state: 'passed' | 'failed' | 'skipped';
  /** Of the whole file, in seconds by the guest's clock. */
  readonly fileSeconds: number;
  /** The cause of a failure, also if it passed at the second attempt; empty otherwise. */
  readonly message: string;
}

/** The fields that we read of vitest's JSON report. */
interface VitestReport {
  readonly testResults: readonly {
    readonly name: string;
    /** `failed` also when a hook failed; the tests after it are skipped then. */
    readonly status: string;
    readonly message?: string;
    /** In milliseconds since 1970, by the guest's clock. */
    readonly startTime: number;
    readonly endTime: number;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages?: readonly string[];
    }[];
  }[];
}

/**
 * Runs test files in the guest, with the same vitest.
 * @param paths files or folders below the checkout, and options of vitest
 * Lines with the prefix `guest: ` that a test prints, which are figures, are printed here too, with the time of each file.
 * @returns every test. Throws when vitest itself cannot run
 */
export async function runInGuest(
  guest: Guest,
  paths: readonly string[],
  timeoutMs: number,
  env: Readonly<Record<string, string>> = {},
): Promise<readonly GuestResult[]> {
  const report = '/tmp/report.json';
  const vitest = [
    'node',
    'node_modules/vitest/vitest.mjs',
    'run',
    '--config',
    'vitest.guest.config.ts',
    '--reporter=json',
    `--outputFile=${report}`,
  ];
  const started = performance.now();
  const { stdout, stderr } = await guest.run([...vitest, ...paths], { timeoutMs, env: { ...insideGuest, ...env } });
  const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
  const tests = `tests of ${paths.join(' ')} took ${seconds(performance.now() - started)}`;
  process.stdout.write(`guest: booted in ${seconds(guest.bootMs)}, ${tests}\n`);
  for (const line of stdout.split('\n')) if (line.startsWith('guest: ')) process.stdout.write(`${line}\n`);
  const text = await guest.get(report).catch(() => {
    throw new Error(`Cannot run ${paths.join(' ')} in the guest: ${stderr.slice(-4000)}`);
  });
  const modules = (JSON.parse(text.toString('utf8')) as VitestReport).testResults;
  for (const { name, startTime, endTime } of modules)
    process.stdout.write(
      `guest: ${name.replace('/sluice/', '')} took ${((endTime - startTime) / 1000).toFixed(0)} s\n`,
    );
  return modules.flatMap(ofModule);
}

/** One guest, and what runs in it. */
export interface Suite {
  readonly boot: () => Promise<Guest>;
  readonly files: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Takes files out of the guest before it goes. */
  readonly atEnd?: (guest: Guest) => Promise<void>;
}

/** Runs a suite in a guest of its own. */
export async function runSuite(suite: Suite, timeoutMs: number): Promise<readonly GuestResult[]> {
  await using guest = await suite.boot();
  // Those of the checkout would look as if they had been made here.
  await guest.run('rm -f test/parity/runs/*-ipvs-*');
  const ended = await runInGuest(guest, suite.files, timeoutMs, suite.env);
  await suite.atEnd?.(guest);
  return ended;
}

const insideGuest = {
  SLUICE_GUEST: '1',
  XDG_CACHE_HOME: '/sluice/cache',
  // Most of the time is spent in starts of Node: the second start of a program is a third faster.
  NODE_COMPILE_CACHE: '/tmp/node-cache',
  SLUICE_PROGRAMS: guestPrograms,
  SLUICE_TIER: tier,
  SLUICE_SEED: String(seed),
};

function ofModule(module: VitestReport['testResults'][number]): readonly GuestResult[] {
  const file = module.name.replace('/sluice/', '');
  const fileSeconds = Math.round((module.endTime - module.startTime) / 1000);
  if (module.assertionResults.length === 0) {
    return [{ file, fileSeconds, name: 'can be loaded', state: 'failed', message: module.message ?? 'it has no test' }];
  }
  const tests = module.assertionResults.map(
    ({ fullName, status, failureMessages }): GuestResult => ({
      file,
      fileSeconds,
      name: fullName,
      state: status === 'passed' || status === 'failed' ? status : 'skipped',
      message: failureMessages?.join('\n') ?? '',
    }),
  );
  const isHooks = module.status === 'failed' && !tests.some(({ state }) => state === 'failed');
  if (!isHooks) return tests;
  return [
    ...tests,
    { file, fileSeconds, name: 'its hooks', state: 'failed', message: module.message || 'a hook failed' },
  ];
}
