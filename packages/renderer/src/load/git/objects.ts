import { bundleLimits, isOutsideTree } from '@sluice/bundle';
import { isRegular, objectsIn, readTreeLines, type TreeLine } from '@sluice/cli';
import { runGit } from './run-git.ts';

/** A repository, by a directory in it, and the bundle's place relative to that directory. */
export interface BundlePlace {
  readonly directory: string;
  /** `.` or `rendered`. */
  readonly path: string;
}

export interface BlobEntry {
  readonly path: string;
  readonly blob: string;
}

const bounds = { outputBytesMax: bundleLimits.treeBytesMax, timeoutMs: 60_000 } as const;

/** Runs git on objects of the repository. @throws Error with git's `stderr`, or one that says which bound was passed */
export function askGit({ directory }: Pick<BundlePlace, 'directory'>, args: readonly string[], input = ''): Buffer {
  try {
    return runGit(directory, args, bounds, input);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOBUFS')
      throw new Error(`git ${args[0]} printed more than ${bounds.outputBytesMax} bytes`, { cause: error });
    if (code === 'ETIMEDOUT')
      throw new Error(`git ${args[0]} took longer than ${bounds.timeoutMs / 1000} s`, { cause: error });
    throw error;
  }
}

/** The path of a bundle in a revision, for `rev-parse` and `cat-file`; relative to the current directory of git. */
export const placeIn = (revision: string, path: string): string =>
  path === '' || path === '.' ? `${revision}:./` : `${revision}:./${path}`;

/**
 * The files of a tree. A link or submodule gets a path that is valid in no bundle.
 * @throws Error for more files than a bundle may have
 */
export function listBlobs(place: Pick<BundlePlace, 'directory'>, tree: string): readonly BlobEntry[] {
  const entries = readTreeLines(askGit(place, ['ls-tree', '-r', '-z', '--full-tree', tree])).flatMap(entryOf);
  if (entries.length > bundleLimits.filesMax) throw new Error(`it has more than ${bundleLimits.filesMax} files`);
  return entries;
}

function entryOf(line: TreeLine): readonly BlobEntry[] {
  const { path, id: blob } = line;
  return isOutsideTree(path) ? [] : [{ path: isRegular(line) ? path : `${path}?`, blob }];
}

/**
 * All blobs with one process.
 * @throws Error for a missing object, and before anything is read for more bytes than a bundle may have
 */
export function readBlobs(place: Pick<BundlePlace, 'directory'>, ids: readonly string[]): ReadonlyMap<string, string> {
  if (ids.length === 0) return new Map();
  const input = ids.map((id) => `${id}\n`).join('');
  // Without --buffer git writes each object by itself, which takes twice as long for 10,000.
  checkSizes(askGit(place, ['cat-file', '--batch-check', '--buffer'], input).toString('latin1'));
  const output = askGit(place, ['cat-file', '--batch', '--buffer'], input);
  // Another process may have removed objects since their sizes were read.
  const objects = objectsIn(output, 'blob', ids);
  return new Map(ids.map((id, at) => [id, objects[at]!.toString('utf8')]));
}

/** @param lines `<id> blob <size>`, or `<id> missing` */
function checkSizes(lines: string): void {
  let all = 0;
  for (const line of lines.split('\n').filter(Boolean)) {
    const [id, kind, size] = line.split(' ');
    if (kind !== 'blob') throw new Error(`git has no file ${id}`);
    if (Number(size) > bundleLimits.fileBytesMax)
      throw new Error(`a file has ${size} bytes, more than ${bundleLimits.fileBytesMax}`);
    all += Number(size);
  }
  if (all > bundleLimits.treeBytesMax) throw new Error(`its files have more than ${bundleLimits.treeBytesMax} bytes`);
}
