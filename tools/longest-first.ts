import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { compareText } from '@sluice/netfilter';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { slowSeconds } from './selection.ts';

const root = join(import.meta.dirname, '..');

/** File → seconds, as last measured by `./dev test --all --profile`; fast files are left out. */
export const knownSeconds = (): Readonly<Record<string, number>> =>
  JSON.parse(readFileSync(join(root, 'test/seconds.json'), 'utf8')) as Record<string, number>;

/** For files that were not measured. */
const usualSeconds = { computing: 2, waiting: 30 } as const;

/**
 * Two queues in one: of files that compute (unit tests) and of those that mostly wait for kernels, guests and programs. Each has its longest
 * files first, so that processors do not idle at the end of a run, and both end at the same time: some of the workers wait while others
 * compute. The same order in each run.
 * @param secondsOf undefined for a file that was not measured
 */
export function inTwoQueues<T>(
  files: readonly T[],
  isWaiting: (file: T) => boolean,
  secondsOf: (file: T) => number | undefined,
): readonly T[] {
  const queues = [true, false].map((waits) => {
    const usual = usualSeconds[waits ? 'waiting' : 'computing'];
    // Tier test runs parts of those that take longer in `--all`.
    const own = files
      .filter((file) => isWaiting(file) === waits)
      .map((file) => ({ file, seconds: Math.min(secondsOf(file) ?? usual, slowSeconds) }))
      .toSorted((a, b) => b.seconds - a.seconds);
    const sum = own.reduce((all, { seconds }) => all + seconds, 0);
    let before = 0;
    return own.map(({ file, seconds }) => {
      const at = before / sum;
      before += seconds;
      return { file, at };
    });
  });
  return queues
    .flat()
    .toSorted((a, b) => a.at - b.at)
    .map(({ file }) => file);
}

/** The order of `inTwoQueues`. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const seconds = knownSeconds();
    const pathOf = ({ moduleId }: TestSpecification): string => moduleId.slice(root.length + 1);
    const byPath = files.toSorted((a, b) => compareText(pathOf(a), pathOf(b)));
    return [
      ...inTwoQueues(
        byPath,
        ({ project }) => project.name !== 'unit',
        (file) => seconds[pathOf(file)],
      ),
    ];
  }
}
