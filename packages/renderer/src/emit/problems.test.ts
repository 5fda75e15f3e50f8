import type { Level, Problem } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { countProblems, printProblems } from './problems.ts';

const problem = (level: Level): Problem => ({
  code: 'DIFFERS_LOCALHOST',
  level,
  message: 'Cannot do a thing',
  hint: 'Do another',
});

test.each<[string, Level[], string]>([
  ['nothing', [], ''],
  [
    'one of each',
    ['note', 'guess', 'differs', 'warning', 'error'],
    '1 error, 1 warning, 1 difference, 1 guess, 1 note',
  ],
  ['several', ['differs', 'guess', 'differs', 'guess'], '2 differences, 2 guesses'],
])('%s is counted in words, the worst first', (_title, levels, text) => {
  expect(countProblems(levels.map(problem))).toBe(text);
});

test('what mode ipvs does otherwise has a word of its own', () => {
  expect(printProblems([problem('differs')])).toBe('differs: Cannot do a thing [DIFFERS_LOCALHOST]\n    Do another\n');
});

test('what is the same of many objects is said once, unless it is an error or all of it is asked for', () => {
  const of = (level: Level, count: number): readonly Problem[] =>
    Array.from({ length: count }, (_, index) => ({ ...problem(level), object: `Service shop/s-${index}` }));
  expect(printProblems(of('warning', 3)).match(/^warning:/gm)).toHaveLength(3);
  expect(printProblems(of('warning', 7))).toBe(
    'warning: Cannot do a thing [DIFFERS_LOCALHOST]\n    7 objects: Service shop/s-0, Service shop/s-1, Service shop/s-2, Service shop/s-3, Service shop/s-4 and 2 more (--verbose lists them)\n    Do another\n',
  );
  expect(printProblems(of('note', 5))).toContain('5 objects: Service shop/s-0, ');
  expect(printProblems(of('error', 7)).match(/^error:/gm)).toHaveLength(7);
  expect(printProblems(of('warning', 7), true).match(/^warning:/gm)).toHaveLength(7);
});
