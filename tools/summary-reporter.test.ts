import { replay } from '@sluice/testing';
import { execa } from 'execa';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { SerializedError, TestModule } from 'vitest/node';
import { summarise } from './summary-reporter.ts';

interface Ended {
  readonly state: 'passed' | 'failed' | 'skipped' | 'pending';
  readonly note?: string;
  readonly mode?: 'todo';
  /** Of tries before. */
  readonly errors?: readonly { readonly message: string }[];
}

/** As much of vitest's module as the summary reads. */
function moduleOf(tests: readonly Ended[], errors: readonly SerializedError[] = []): TestModule {
  const cases = tests.map((ended, index) => ({
    fullName: `test ${index}`,
    options: { mode: ended.mode },
    result: () => ended,
    meta: () => ({}),
    module: { relativeModuleId: 'some.test.ts' },
    diagnostic: () => ({ flaky: ended.state === 'passed' && ended.errors !== undefined }),
  }));
  return {
    children: { allTests: () => cases },
    errors: () => errors,
    relativeModuleId: 'some.test.ts',
  } as unknown as TestModule;
}

const root = join(import.meta.dirname, '..');
/** How a file that failed is run again. */
const again = `again: ${replay('some.test.ts')}`;
const retried = { state: 'passed', errors: [{ message: 'too slow\nat x' }] } as const;
const passed = { state: 'passed' } as const;
const failed = { state: 'failed', errors: [{ message: '\u001b[31mexpected 1\u001b[39m\nat x' }] } as const;
const ofTest = (number: number): string => `failed: some.test.ts > test ${number} (expected 1)`;

test.each([
  ['passed tests', [moduleOf([passed, passed])], [], undefined, ['2 passed, 0 failed']],
  [
    'failed tests of several modules',
    [moduleOf([failed]), moduleOf([passed, failed])],
    [],
    undefined,
    [ofTest(0), ofTest(1), again, '1 passed, 2 failed'],
  ],
  [
    'a module that cannot be loaded',
    [moduleOf([], [{ message: 'no such file' }])],
    [],
    undefined,
    ['failed: some.test.ts, outside of its tests (no such file)', again, '0 passed, 1 failed'],
  ],
  [
    'an error outside all tests, with its first place in the checkout',
    [moduleOf([passed])],
    [
      {
        message: 'read EPIPE',
        stack: `at node:net:1:1\nat x (${root}/node_modules/a.js:1:1)\nat y (${root}/tools/b.ts:2:3)\nat z (${root}/c.ts:4:5)`,
        VITEST_TEST_PATH: `${root}/tools/d.test.ts`,
      },
    ],
    undefined,
    ['failed: outside of all tests (read EPIPE at tools/b.ts:2, while tools/d.test.ts ran)', '1 passed, 1 failed'],
  ],
  ['no test at all', [], [], undefined, ['0 passed, 0 failed']],
  [
    'a test that skips itself, with its reason',
    [moduleOf([passed, { state: 'skipped', note: 'needs root' }])],
    [],
    undefined,
    ['not run: test 1 (needs root)', '1 passed, 0 failed, 1 skipped'],
  ],
  [
    'a test that passes at the second try, with its first failure',
    [moduleOf([passed, retried])],
    [],
    undefined,
    ['second try: some.test.ts > test 1 (too slow)', '2 passed, 0 failed'],
  ],
  [
    'a test that is marked as to do',
    [moduleOf([{ state: 'skipped', mode: 'todo' }])],
    [],
    undefined,
    ['not run: test 0 (still to be written)', '0 passed, 0 failed, 1 skipped'],
  ],
  [
    'a test that never ended',
    [moduleOf([{ state: 'pending' }])],
    [],
    undefined,
    ['not run: test 0 (marked as skipped)', '0 passed, 0 failed, 1 skipped'],
  ],
  [
    'a project that was left out',
    [moduleOf([passed])],
    [],
    'kernel tests: no root',
    ['not run: kernel tests: no root', '1 passed, 0 failed'],
  ],
])('the summary counts %s', (_title, modules, errors, notRun, lines) => {
  expect(summarise(modules, errors, notRun).lines).toEqual(lines);
});

test('three tests may need a second try; with a fourth the run fails', () => {
  const of = (count: number): ReturnType<typeof summarise> =>
    summarise([moduleOf(Array.from({ length: count }, () => retried))], [], undefined);
  expect([of(3).isGood, of(3).lines.at(-1)]).toEqual([true, '3 passed, 0 failed']);
  expect([of(4).isGood, ...of(4).lines.slice(-2)]).toEqual([
    false,
    'failed: 4 tests passed only at the second try; at most 3 are allowed',
    '4 passed, 1 failed',
  ]);
});

/** A checkout whose `./dev test` runs these files with the reporter of this one, and whose `./dev share` does as told. */
function smallCheckout(
  files: Readonly<Record<string, string>>,
  share: string,
): AsyncDisposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), 'sluice-ci-'));
  mkdirSync(join(path, '.ci'));
  cpSync(join(root, '.ci/run'), join(path, '.ci/run'));
  symlinkSync(join(root, 'node_modules'), join(path, 'node_modules'));
  writeFileSync(
    join(path, 'vitest.config.ts'),
    `import { SummaryReporter } from '${root}/tools/summary-reporter.ts';
     export default { test: { retry: 1, reporters: ['default', new SummaryReporter()] } };`,
  );
  const vitest = `"${process.execPath}" node_modules/vitest/vitest.mjs run`;
  writeFileSync(
    join(path, 'dev'),
    `#!/bin/sh\ncd "\${0%/*}"\nif [ "$1" = test ]; then exec ${vitest}; fi\n${share}\n`,
    {
      mode: 0o755,
    },
  );
  for (const [name, text] of Object.entries(files))
    writeFileSync(join(path, name), `import { expect, test } from 'vitest';\n${text}`);
  return { path, [Symbol.asyncDispose]: async () => rmSync(path, { recursive: true }) };
}

/** What `.ci/run` prints of its own after both parts, in colours as in CI. */
async function endOfLog(files: Readonly<Record<string, string>>, share: string): Promise<readonly string[]> {
  await using checkout = smallCheckout(files, share);
  const env = { CI: 'true', FORCE_COLOR: '1', SLUICE_NOT_RUN: undefined, VITEST: undefined };
  const { stdout, exitCode } = await execa('bash', [join(checkout.path, '.ci/run')], { env, reject: false });
  const own = stdout.slice(stdout.indexOf('ci: ./dev share took')).split('\n').slice(1);
  return [...own.map((line) => line.replace(/while \S*sluice-ci-\w+\//, 'while ')), `exit code ${exitCode}`];
}

const secondTries = `let tries = 0;
  for (const n of [0, 1, 2, 3]) test('try ' + n, () => { tries += 1; if (tries % 2 === 1) throw new Error('slow ' + n); });`;

test.each([
  [
    'each failure of its parts',
    {
      'a.test.ts': `test('one', () => { expect(1).toBe(2); });`,
      'b.test.ts': secondTries,
      'c.test.ts': `test('two', () => { void Promise.reject(new Error('left alone')); });`,
    },
    'echo "7 passed, 0 failed, 1 skipped"',
    [
      ...[0, 1, 2, 3].map((n) => `ci: test: second try: b.test.ts > try ${n} (slow ${n})`),
      'ci: test: failed: a.test.ts > one (expected 1 to be 2 // Object.is equality)',
      'ci: test: failed: outside of all tests (left alone, while c.test.ts ran)',
      'ci: test: failed: 4 tests passed only at the second try; at most 3 are allowed',
      `ci: test: again: ${replay('a.test.ts')}`,
      '12 passed, 3 failed, 1 skipped',
      'exit code 1',
    ],
  ],
  [
    'a part that dies',
    { 'a.test.ts': `test('one', () => {});` },
    'echo "share: cannot" >&2; exit 3',
    [
      'ci: share: failed: ./dev share printed no count, exit code 3; its last lines:',
      'ci: share: share: cannot',
      '1 passed, 1 failed',
      'exit code 1',
    ],
  ],
])('the end of a log in CI names %s', async (_title, files, share, lines) => {
  expect(await endOfLog(files, share)).toEqual(lines);
});
