import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type BundleFiles, clusterFile, compareText, isOutsideTree, type Problem, readPath } from '@sluice/bundle';
import { readRegularText } from './regular.ts';

/**
 * The files of a bundle directory.
 * @param wanted which of them to read; all when left out
 * @returns path → text, or `BUNDLE_INVALID` when the directory is no bundle or holds what no bundle has
 */
export function readTree(dir: string, wanted: (path: string) => boolean = () => true): BundleFiles | Problem {
  const paths = listBundle(dir);
  if (!Array.isArray(paths)) return paths as Problem;
  return new Map(paths.filter(wanted).map((path) => [path, readText(dir, path) ?? '']));
}

/**
 * The same files, each read whenever it is asked for and not kept: for a question that needs a few of 10,000 for longer than a look,
 * where keeping all costs more than reading some twice.
 * @returns path → text, or `BUNDLE_INVALID` as `readTree` does. Asking throws the file system's error for a file that has gone since
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

  /** Nothing in its place: an answer without that file would be about another bundle. */
  #read(path: string): string {
    return readFileSync(`${this.#dir}/${path}`, 'utf8');
  }
}

/** The paths of a bundle directory, or why it is none. A link in it would lead to a file of somebody else, whose lines problems show. */
function listBundle(dir: string): readonly string[] | Problem {
  const { paths, irregular } = walkTree(dir);
  const [odd] = irregular;
  if (odd !== undefined) return notABundle(join(dir, odd), 'it is no regular file');
  const foreign = paths.find((path) => readPath(path) === undefined);
  if (foreign !== undefined) return notABundle(join(dir, foreign), 'no bundle has this file');
  if (!paths.includes(clusterFile)) return notABundle(join(dir, clusterFile), 'there is no such file');
  return paths;
}

/** The paths of all files that belong to the tree, sorted; none when the directory is not there. */
export function listTree(dir: string): readonly string[] {
  return walkTree(dir).paths;
}

/** @returns all paths, and those of links, pipes and the like; sorted */
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

/** A file's text; undefined when it is not there, or something else is in its place. */
export function readText(dir: string, path: string): string | undefined {
  return readRegularText(`${dir}/${path}`);
}

function notABundle(file: string, why: string): Problem {
  return {
    code: 'BUNDLE_INVALID',
    level: 'error',
    at: { file, line: 1, column: 1 },
    message: `Cannot read the bundle: ${why}`,
    hint: 'Give a directory that `sluice render` wrote',
  };
}
