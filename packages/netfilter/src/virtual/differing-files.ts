import { commonEnds } from '../common-ends.ts';
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
  const { head, tail } = commonEnds(before, after);
  const middle = (files: typeof before): typeof before => files.slice(head, files.length - tail);
  const [gone, added] = [middle(before), middle(after)];
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
