import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { emulatedBooter, guestFiles, userModeBooter } from '../test/vm/where.ts';
import { inTwoQueues } from './longest-first.ts';
import { ofThisLanding, readTags, selected, type TestFile, testFiles } from './selection.ts';
import { runPrograms } from './test-programs.ts';

const root = join(import.meta.dirname, '..');
const fileOf = (path: string, tier: TestFile['tier']): TestFile => ({ path, tier, isAlone: false });

describe('the tier of a file', () => {
  test.each([
    ['a tag on the first line', '// @module-tag all\nimport …', 'all', false],
    ['with the one for files that run alone', '// @module-tag test\n// @module-tag alone\n', 'test', true],
  ] as const)('comes from %s', (_title, text, tier, isAlone) => {
    expect(readTags('a.test.ts', text)).toEqual({ path: 'a.test.ts', tier, isAlone });
  });

  test('is the default without a tag', () => {
    expect(readTags('a.test.ts', 'import …', 'quick').tier).toBe('quick');
    expect(readTags('a.test.ts', '// @module-tag test\n', 'quick').tier).toBe('test');
  });

  test.each([
    ['no tag where one is needed', 'import …'],
    ['two tiers', '// @module-tag quick\n// @module-tag all\n'],
  ])('is refused with %s', (_title, text) => {
    expect(() => readTags('a.test.ts', text)).toThrow('a.test.ts names');
  });
});

test('a run selects the files of its tier and of smaller ones', () => {
  const files = [fileOf('a', 'quick'), fileOf('b', 'test'), fileOf('c', 'all')];
  expect(selected(files, [], 'quick').map(({ path }) => path)).toEqual(['a']);
  expect(selected(files, [], 'test').map(({ path }) => path)).toEqual(['a', 'b']);
  expect(selected(files, [], 'soak').map(({ path }) => path)).toEqual(['a', 'b', 'c']);
});

test('named files run in every tier', () => {
  const files = [fileOf('test/netns/a.test.ts', 'all'), fileOf('test/netns/b.test.ts', 'quick')];
  expect(selected(files, ['test/netns/a'], 'quick').map(({ path }) => path)).toEqual(['test/netns/a.test.ts']);
});

test('slow files have turns, those of tier all and fast ones do not', () => {
  const files = [fileOf('a', 'test'), fileOf('b', 'quick'), fileOf('c', 'all'), fileOf('d', 'test')];
  const seconds = { a: 100, b: 300, c: 300, d: 59 };
  const slow: string[][] = [];
  const run = ofThisLanding(files, seconds, (all) => {
    slow.push(all.map(({ path }) => path));
    return all.slice(0, 1);
  });
  expect(slow).toEqual([['b', 'a']]);
  expect(run.map(({ path }) => path)).toEqual(['b', 'c', 'd']);
});

test('files that wait and files that compute take turns, the longest of each first', () => {
  const seconds: Record<string, number> = { k10: 10, k600: 600, u4: 4, u20: 20 };
  const order = inTwoQueues(
    ['k10', 'k600', 'k?', 'u4', 'u?', 'u20'],
    (file) => file.startsWith('k'),
    (file) => seconds[file],
  );
  expect(order).toEqual(['k600', 'u20', 'k?', 'u4', 'k10', 'u?']);
});

test.each([
  ['packages/netfilter/src/link/widen.test.ts', false],
  ['test/words.test.ts', false],
  ['test/cluster/cli.test.ts', true],
  // By a module of theirs.
  ['test/netns/boot.test.ts', true],
  ['test/netns/early-endpoints.test.ts', true],
])('whether %s needs the programs: %s', (path, expected) => {
  expect(runPrograms(root, [path])).toBe(expected);
});

test('every project has files, and each file is in one project', () => {
  const projects = (['unit', 'kernel', 'vm', 'package'] as const).map((name) => testFiles(root, name));
  for (const files of projects) expect(files.length).toBeGreaterThan(0);
  const paths = projects.flat().map(({ path }) => path);
  expect(new Set(paths).size).toBe(paths.length);
});

describe('what needs a kernel of its own', () => {
  const [modes, kills] = ['test/vm/inside/modes.test.ts', 'test/vm/inside/kills.test.ts'];
  const contract = 'test/netns/kernel.test.ts';

  test.each([
    ['./dev test', [modes], [], false, [contract, modes], []],
    ['./dev test --all', [modes, kills], [], true, [contract, modes], [contract, modes, kills]],
    ['a named file', [modes], [modes], false, [modes], []],
    ['a named file of the emulated guest', [kills], [kills], false, [], [kills]],
    ['the kernel in user mode by name', [modes], [userModeBooter], false, [contract, modes], []],
    ['the emulated guest by name', [modes], [emulatedBooter], false, [], [contract, modes]],
  ])('is shared out by %s', (_title, files, named, isAll, userMode, emulated) => {
    expect(guestFiles(files, named, isAll)).toEqual({ SLUICE_USER_MODE_FILES: userMode, SLUICE_GUEST_FILES: emulated });
  });
});
