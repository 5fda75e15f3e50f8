import type { ResolvedVirtualFile } from './line.ts';

/** A file of a node before and after a change; left out where it was added or removed. */
interface DifferingFile {
  readonly path: string;
  readonly before?: ResolvedVirtualFile;
  readonly after?: ResolvedVirtualFile;
}

/**
 * The files that differ between two lists. Unchanged ones have the same identity, so that few of 10,000 are looked into.
 * @param before in the order of loading, each path once; `after` likewise
 */
export function differingFiles(
  before: readonly ResolvedVirtualFile[],
  after: readonly ResolvedVirtualFile[],
): readonly DifferingFile[] {
  const [gone, added] = middlesOf(before, after);
  const old = new Map(gone.map((file) => [file.path, file]));
  const found: DifferingFile[] = [];
  for (const file of added) {
    const its = old.get(file.path);
    old.delete(file.path);
    if (its !== file) found.push({ path: file.path, ...(its ? { before: its } : {}), after: file });
  }
  for (const file of old.values()) found.push({ path: file.path, before: file });
  return found;
}

/** What is left of two lists without the values that both begin and end with. */
function middlesOf<T>(before: readonly T[], after: readonly T[]): readonly [readonly T[], readonly T[]] {
  const least = Math.min(before.length, after.length);
  let head = 0;
  while (head < least && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < least - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
  return [before.slice(head, before.length - tail), after.slice(head, after.length - tail)];
}
