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
