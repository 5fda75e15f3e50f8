import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { compareText } from '@sluice/netfilter';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const root = join(import.meta.dirname, '..');

/** File → seconds, as last measured by `./dev test --all --profile`; fast files are left out. */
export const knownSeconds = (): Readonly<Record<string, number>> =>
  JSON.parse(readFileSync(join(root, 'test/seconds.json'), 'utf8')) as Record<string, number>;

/** Starts the longest files first, so that processors do not idle at the end of a run. The same order in each run. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const seconds = knownSeconds();
    const pathOf = ({ moduleId }: TestSpecification): string => moduleId.slice(root.length + 1);
    const secondsOf = (file: TestSpecification): number => seconds[pathOf(file)] ?? 0;
    return files.toSorted((a, b) => secondsOf(b) - secondsOf(a) || compareText(pathOf(a), pathOf(b)));
  }
}
