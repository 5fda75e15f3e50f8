import { compareProblems, type Level, printProblem, type Problem } from '@sluice/bundle';

/** One thing that is said of more objects than these is said once, with their names. */
const apartMax = 3;
const namedMax = 5;

/**
 * Prints problems for a person, in the order of the files; the same problem twice is printed once, and what is said of many objects alike
 * stands where the first of them does, unless it is an error.
 * @param verbose each object has lines of its own
 */
export function printProblems(problems: readonly Problem[], verbose = false): string {
  const groups = Map.groupBy(problems.toSorted(compareProblems), (one) =>
    verbose || one.level === 'error' || one.object === undefined
      ? one
      : `${one.code}\n${one.level}\n${one.message}\n${one.hint}`,
  );
  const texts = [...groups.values()].flatMap((group) =>
    group.length <= apartMax ? group.map(printProblem) : [printTogether(group)],
  );
  return [...new Set(texts)].join('');
}

function printTogether(group: readonly Problem[]): string {
  const [{ level, message, code, hint }] = group as [Problem];
  const names = [...new Set(group.flatMap(({ object }) => object ?? []))];
  const more = names.length > namedMax ? ` and ${names.length - namedMax} more (--verbose lists them)` : '';
  return `${level}: ${message} [${code}]\n    ${names.length} objects: ${names.slice(0, namedMax).join(', ')}${more}\n    ${hint}\n`;
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
