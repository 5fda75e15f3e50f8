import type { BundleFiles, Problem } from '@sluice/bundle';
import { printProblems } from '../emit/problems.ts';
import { type DiffFormat, printDiff, printRaw } from '../emit/review/diff.ts';
import { exitCodes } from '../exit.ts';
import { readBundle } from '../load/revision.ts';
import { diffBundles, isSame } from '../review/diff.ts';
import { reading, Stopped } from './failure.ts';
import { print, progress, say } from './progress.ts';

export interface DiffOptions {
  readonly output: DiffFormat;
  readonly raw?: boolean;
}

/** `sluice diff`: what two bundles say and do differently. */
export function diffCommand(old: string, fresh: string, options: DiffOptions): number {
  progress(`reading ${old}`);
  const before = bundleAt(old);
  progress(`reading ${fresh}`);
  const after = bundleAt(fresh);
  if (options.raw) {
    const text = printRaw(before, after);
    print(text);
    return text === '' ? exitCodes.done : exitCodes.different;
  }
  progress('comparing');
  const diff = diffBundles(before, after);
  if (!('flows' in diff)) {
    say(printProblems(diff));
    return exitCodes.problem;
  }
  print(printDiff(diff, options.output));
  return isSame(diff) ? exitCodes.done : exitCodes.different;
}

/**
 * A bundle from a directory or a Git revision.
 * @throws Stopped when there is none
 */
export function bundleAt(spec: string): BundleFiles {
  const files = reading(spec, () => readBundle(spec));
  if (files instanceof Map) return files;
  throw new Stopped(files as Problem);
}
