import {
  compareProblems,
  type Level,
  printProblem,
  type Problem,
  type ProblemCode,
  shortList,
} from '@sluice/netfilter';

/** The same problem of more objects than this is printed once, with their names. */
const separateMax = 3;
const namedMax = 5;

/** Sentences for many objects; other problems print the message of the first. */
const sentences: Partial<Record<ProblemCode, (count: number) => string>> = {
  SERVICE_WITHOUT_ENDPOINTS: (count) => `${count} Services have no endpoints, so their traffic is rejected`,
  SLICE_WITHOUT_SERVICE: (count) => `${count} EndpointSlices name no Service and are ignored, as by kube-proxy`,
};

/**
 * Prints problems as text, in the order of the files. Duplicates are printed once, and the same problem of many objects, unless it is an
 * error, is printed once at the place of the first.
 * @param verbose true: print every object; undefined: the command has no such option
 */
export function printProblems(problems: readonly Problem[], verbose?: boolean): string {
  const groups = Map.groupBy(problems.toSorted(compareProblems), (one) =>
    verbose || one.level === 'error' || one.object === undefined
      ? one
      : `${one.code}\n${one.level}\n${one.message}\n${one.hint}`,
  );
  const texts = [...groups.values()].flatMap((group) =>
    group.length <= separateMax ? group.map(printProblem) : [printMerged(group, verbose !== undefined)],
  );
  return [...new Set(texts)].join('');
}

function printMerged(group: readonly Problem[], hasVerbose: boolean): string {
  const [{ level, message, code, hint }] = group as [Problem];
  const titles = [...new Set(group.flatMap(({ object }) => object ?? []))];
  const rest = hasVerbose && titles.length > namedMax ? ' (--verbose lists them)' : '';
  const named = (names: readonly string[]): string => `${shortList(names, namedMax)}${rest}`;
  const sentence = sentences[code]?.(titles.length);
  return sentence === undefined
    ? `${level}: ${message} [${code}]\n    ${titles.length} objects: ${named(titles)}\n    ${hint}\n`
    : `${level}: ${sentence}: ${named(titles.map(nameOf))} [${code}]\n    ${hint}\n`;
}

/** `shop/web` of `Service shop/web`. */
const nameOf = (title: string): string => title.slice(title.indexOf(' ') + 1);

/** The singular and plural of each level. */
const words = {
  error: ['error', 'errors'],
  warning: ['warning', 'warnings'],
  differs: ['difference', 'differences'],
  guess: ['guess', 'guesses'],
  note: ['note', 'notes'],
} as const satisfies Record<Level, readonly [one: string, several: string]>;

/** `2 errors, 1 warning`; empty without problems. */
export function countProblems(problems: readonly Problem[]): string {
  const levels: readonly Level[] = ['error', 'warning', 'differs', 'guess', 'note'];
  return levels
    .map((level) => ({ level, count: problems.filter((problem) => problem.level === level).length }))
    .filter(({ count }) => count > 0)
    .map(({ level, count }) => `${count} ${words[level][count === 1 ? 0 : 1]}`)
    .join(', ');
}
