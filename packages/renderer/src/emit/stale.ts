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
  const shown = paths
    .slice(0, staleLimits.filesMax)
    .map((path) => patchOf(path, readText(dir, path), files.get(path), staleLimits.diffTimeoutMs));
  const rest = paths.length - shown.length;
  return shown.join('') + (rest > 0 ? `… and ${rest} more files\n` : '');
}

/**
 * A unified diff of two versions of a file; undefined: the side does not have it.
 * @returns one line in place of a diff that takes longer than `timeout`, in milliseconds
 */
export function patchOf(path: string, old: string | undefined, updated: string | undefined, timeout: number): string {
  const [from, to] = [old === undefined ? '/dev/null' : `a/${path}`, updated === undefined ? '/dev/null' : `b/${path}`];
  const patch = createTwoFilesPatch(from, to, old ?? '', updated ?? '', undefined, undefined, {
    timeout,
    headerOptions: { includeIndex: false, includeUnderline: false, includeFileHeaders: true },
  });
  return patch ?? `--- ${from}\n+++ ${to}\n(differs; too much to show)\n`;
}
