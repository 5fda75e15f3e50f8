import { createTwoFilesPatch } from 'diff';
import { readText } from '../load/tree.ts';
import type { TreePlan } from './tree.ts';

/** Limits of the output of `--check`. */
const staleLimits = { filesMax: 50, diffTimeoutMs: 2_000 } as const;

/**
 * Prints unified diffs from the directory to the rendered files.
 * Files above the limit are counted; a diff that takes too long is replaced by a line.
 */
export function printStale(dir: string, files: ReadonlyMap<string, string>, plan: TreePlan): string {
  const paths = [...plan.write, ...plan.remove].toSorted();
  const shown = paths.slice(0, staleLimits.filesMax).map((path) => {
    const before = readText(dir, path);
    const after = files.get(path);
    const patch = createTwoFilesPatch(
      before === undefined ? '/dev/null' : `a/${path}`,
      after === undefined ? '/dev/null' : `b/${path}`,
      before ?? '',
      after ?? '',
      undefined,
      undefined,
      {
        timeout: staleLimits.diffTimeoutMs,
        headerOptions: { includeIndex: false, includeUnderline: false, includeFileHeaders: true },
      },
    );
    return patch ?? `--- a/${path}\n+++ b/${path}\n(differs; too much to show)\n`;
  });
  const rest = paths.length - shown.length;
  return shown.join('') + (rest > 0 ? `… and ${rest} more files\n` : '');
}
