import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type BundleFiles, clusterFile, isOutsideTree, readPath } from '@sluice/bundle';
import { compareText, type Problem, refusal } from '@sluice/netfilter';
import { readRegularText } from '@sluice/transport/files/regular.ts';

/**
 * Reads the files of a bundle directory.
 * @param wanted selects the files to read; default: all
 * @returns path → text, or `BUNDLE_INVALID` when the directory is not a bundle or has a foreign file
 */
export function readTree(dir: string, wanted: (path: string) => boolean = () => true): BundleFiles | Problem {
  const paths = listBundle(dir);
  if (!Array.isArray(paths)) return paths as Problem;
  return new Map(paths.filter(wanted).map((path) => [path, readText(dir, path) ?? '']));
}

/**
 * The same files, read on demand and not cached: for commands that need a few of 10,000 files, where reading some twice costs less than
 * reading all.
 * @returns path → text, or `BUNDLE_INVALID` like `readTree`. Access to a file that was deleted throws the error of the file system
 */
export function openTree(dir: string): BundleFiles | Problem {
  const paths = listBundle(dir);
  return Array.isArray(paths) ? new OpenTree(dir, paths) : (paths as Problem);
}

class OpenTree extends Map<string, string> {
  readonly #dir: string;

  constructor(dir: string, paths: readonly string[]) {
    super();
    this.#dir = dir;
    for (const path of paths) this.set(path, '');
  }

  override get(path: string): string | undefined {
    return this.has(path) ? this.#read(path) : undefined;
  }

  override *entries(): MapIterator<[string, string]> {
    for (const path of this.keys()) yield [path, this.#read(path)];
  }

  override [Symbol.iterator](): MapIterator<[string, string]> {
    return this.entries();
  }

  override *values(): MapIterator<string> {
    for (const [, text] of this) yield text;
  }

  override forEach(visit: (text: string, path: string, files: Map<string, string>) => void): void {
    for (const [path, text] of this) visit(text, path, this);
  }

  /** Throws for a deleted file: an empty text would be another bundle. */
  #read(path: string): string {
    return readFileSync(`${this.#dir}/${path}`, 'utf8');
  }
}

/** The paths of a bundle directory, or a problem. Refuses links: problems would print lines of a foreign file. */
function listBundle(dir: string): readonly string[] | Problem {
  const { paths, irregular } = walkTree(dir);
  const [odd] = irregular;
  if (odd !== undefined) return unreadableFile(join(dir, odd), 'it is not a regular file');
  const foreign = paths.find((path) => readPath(path) === undefined);
  if (foreign !== undefined) return unreadableFile(join(dir, foreign), 'this file is not part of a bundle');
  if (!paths.includes(clusterFile)) return unreadableFile(join(dir, clusterFile), 'no such file');
  return paths;
}

/** The paths of all files of the tree, sorted; empty for a missing directory. */
export function listTree(dir: string): readonly string[] {
  return walkTree(dir).paths;
}

/** @returns all paths, and those of irregular files such as links and pipes; sorted */
function walkTree(dir: string): { readonly paths: readonly string[]; readonly irregular: readonly string[] } {
  const paths: string[] = [];
  const irregular: string[] = [];
  const walk = (folder: string): void => {
    for (const entry of readdirSync(`${dir}/${folder}`, { withFileTypes: true })) {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (isOutsideTree(path)) continue;
      if (entry.isDirectory()) {
        walk(path);
        continue;
      }
      paths.push(path);
      if (!entry.isFile()) irregular.push(path);
    }
  };
  try {
    walk('');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  return { paths: paths.toSorted(compareText), irregular: irregular.toSorted(compareText) };
}

/** The text of a file; undefined for a missing or irregular file. */
export function readText(dir: string, path: string): string | undefined {
  return readRegularText(`${dir}/${path}`);
}

/** A file because of which files are no bundle. @param why a clause without a full stop */
export const unreadableFile = (file: string, why: string): Problem =>
  refusal('BUNDLE_INVALID', `Cannot read the bundle: ${why}`, 'Pass a directory written by `sluice render`', {
    at: { file, line: 1, column: 1 },
  });
