import { compareProblems, type Level, printProblem, type Problem } from '@sluice/bundle';

/** Prints problems for a person, in the order of the files; the same problem twice is printed once. */
export function printProblems(problems: readonly Problem[]): string {
  return [...new Set(problems.toSorted(compareProblems).map(printProblem))].join('');
}

/** `2 errors, 1 warning`; empty when there is nothing to say. */
export function countProblems(problems: readonly Problem[]): string {
  const levels: readonly Level[] = ['error', 'warning', 'guess', 'note'];
  return levels
    .map((level) => ({ level, count: problems.filter((problem) => problem.level === level).length }))
    .filter(({ count }) => count > 0)
    .map(({ level, count }) => `${count} ${level}${count === 1 ? '' : level === 'guess' ? 'es' : 's'}`)
    .join(', ');
}

/** Problems as a versioned document for programs. */
export function problemsJson(problems: readonly Problem[]): string {
  const items = problems.toSorted(compareProblems);
  return `${JSON.stringify({ apiVersion: 'sluice.dev/v1alpha1', kind: 'ProblemList', items }, null, 2)}\n`;
}
