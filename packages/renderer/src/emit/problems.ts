import { compareProblems, type Level, printProblem, type Problem } from '@sluice/bundle';

/** Prints problems for a person, in the order of the files; the same problem twice is printed once. */
export function printProblems(problems: readonly Problem[]): string {
  return [...new Set(problems.toSorted(compareProblems).map(printProblem))].join('');
}

/** How each level is counted: one, and several. */
const words = {
  error: ['error', 'errors'],
  warning: ['warning', 'warnings'],
  differs: ['difference', 'differences'],
  guess: ['guess', 'guesses'],
  note: ['note', 'notes'],
} as const satisfies Record<Level, readonly [one: string, several: string]>;

/** `2 errors, 1 warning`; empty when there is nothing to say. */
export function countProblems(problems: readonly Problem[]): string {
  const levels: readonly Level[] = ['error', 'warning', 'differs', 'guess', 'note'];
  return levels
    .map((level) => ({ level, count: problems.filter((problem) => problem.level === level).length }))
    .filter(({ count }) => count > 0)
    .map(({ level, count }) => `${count} ${words[level][count === 1 ? 0 : 1]}`)
    .join(', ');
}

/** Problems as a versioned document for programs. */
export function problemsJson(problems: readonly Problem[]): string {
  const items = problems.toSorted(compareProblems);
  return `${JSON.stringify({ apiVersion: 'sluice.dev/v1alpha1', kind: 'ProblemList', items }, null, 2)}\n`;
}
