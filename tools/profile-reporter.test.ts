import { expect, test } from 'vitest';
import { type FileProfile, profileLines } from './profile-reporter.ts';

const fileOf = (file: string, tookMs: number): FileProfile => ({
  file,
  tookMs,
  setUpMs: tookMs / 2,
  waitingMs: tookMs / 4,
  workingMs: tookMs / 4,
});

test('the slowest files come first, with the sum of all', () => {
  expect(profileLines([fileOf('fast.test.ts', 400), fileOf('slow.test.ts', 61_000)])).toEqual([
    'seconds:   took   set-up  waiting  working',
    '    61.0     30.5     15.3     15.3  slow.test.ts',
    '     0.4      0.2      0.1      0.1  fast.test.ts',
    '    61.4     30.7     15.3     15.3  all 2 files',
  ]);
});

test('the slowest thirty files are listed, and all are added up', () => {
  const lines = profileLines(Array.from({ length: 31 }, (_, n) => fileOf(`${n}.test.ts`, (n + 1) * 1000)));
  expect(lines).toHaveLength(32);
  expect(lines.at(-2)).toContain(' 1.test.ts');
  expect(lines.at(-1)).toBe('   496.0    248.0    124.0    124.0  all 31 files');
});
