import { replay } from '@sluice/testing';
import { expect, test } from 'vitest';
import type { TestModule } from 'vitest/node';
import { summarise } from './summary-reporter.ts';

interface Ended {
  readonly state: 'passed' | 'failed' | 'skipped' | 'pending';
  readonly note?: string;
  readonly mode?: 'todo';
  /** Of tries before. */
  readonly errors?: readonly { readonly message: string }[];
}

/** As much of vitest's module as the summary reads. */
function moduleOf(tests: readonly Ended[], errors: readonly unknown[] = []): TestModule {
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

/** How a file that failed is run again. */
const again = `again: ${replay('some.test.ts')}`;
const retried = { state: 'passed', errors: [{ message: 'too slow\nat x' }] } as const;
const passed = { state: 'passed' } as const;
const failed = { state: 'failed' } as const;

test.each([
  ['passed tests', [moduleOf([passed, passed])], [], undefined, ['2 passed, 0 failed']],
  [
    'failed tests of several modules',
    [moduleOf([failed]), moduleOf([passed, failed])],
    [],
    undefined,
    [again, '1 passed, 2 failed'],
  ],
  ['a module that cannot be loaded', [moduleOf([], ['no such file'])], [], undefined, [again, '0 passed, 1 failed']],
  ['an error outside all tests', [moduleOf([passed])], ['unhandled'], undefined, ['1 passed, 1 failed']],
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
    ['second try: test 1 (too slow)', '2 passed, 0 failed'],
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
