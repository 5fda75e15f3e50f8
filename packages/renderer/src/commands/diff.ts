import { printProblems } from '../emit/problems.ts';
import { type DiffFormat, printDiff, printRaw } from '../emit/review/diff.ts';
import { exitCodes } from '../exit.ts';
import { diffBundles, isSame } from '../review/diff.ts';
import { print, progress, say } from './progress.ts';
import { type SideOptions, sideAt } from './side.ts';

export interface DiffOptions extends SideOptions {
  readonly output: DiffFormat;
  readonly raw?: boolean;
}

/** `sluice diff`: what two bundles, or two directories of manifests, say and do differently. */
export async function diffCommand(old: string, fresh: string, options: DiffOptions): Promise<number> {
  progress(`reading ${old}`);
  const before = await sideAt(old, options);
  progress(`reading ${fresh}`);
  const after = await sideAt(fresh, options);
  if (before === undefined || after === undefined) return exitCodes.problem;
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
