import { rmdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { compareText, completeFile, completeText, fileDigest, type Problem, readPath } from '@sluice/bundle';
import { listTree, readText } from '../load/tree.ts';
import { removeFile } from './file.ts';
import { makeFolder } from './folder.ts';

/** What is to be done with a directory so that it holds exactly a bundle's files. Paths are sorted. */
export interface TreePlan {
  readonly write: readonly string[];
  readonly remove: readonly string[];
  /** `.sluice-complete` as it has to be, and whether it already is. */
  readonly complete: { readonly text: string; readonly isThere: boolean };
}

/**
 * Compares a bundle with what a directory holds.
 * @returns the plan, or `OUTPUT_NOT_A_BUNDLE` when the directory holds a file that no bundle has: then nothing may be touched
 */
export function planTree(dir: string, files: ReadonlyMap<string, string>): TreePlan | Problem {
  const present = listTree(dir);
  const foreign = present.find((path) => readPath(path) === undefined);
  if (foreign !== undefined) return notABundle(dir, foreign);
  const there = new Set(present);
  const text = completeText(new Map([...files].map(([path, content]) => [path, fileDigest(content)])));
  return {
    write: [...files.keys()]
      .filter((path) => !there.has(path) || readText(dir, path) !== files.get(path))
      .toSorted(compareText),
    remove: present.filter((path) => !files.has(path)),
    complete: { text, isThere: readText(dir, completeFile) === text },
  };
}

/**
 * Does what the plan says. `.sluice-complete` goes first and comes last, so an interrupted write is not taken for a bundle,
 * and the next write finds what is left to do by comparing again.
 * @throws what the file system throws: no space, no permission
 */
export function writeTree(dir: string, files: ReadonlyMap<string, string>, plan: TreePlan): void {
  if (plan.complete.isThere && plan.write.length === 0 && plan.remove.length === 0) return;
  makeFolder(dir);
  removeFile(join(dir, completeFile));
  for (const path of plan.remove) removeWithEmptyFolders(dir, path);
  let made = '';
  for (const path of plan.write) {
    const parent = dirname(path);
    // Paths are sorted, so the files of one folder follow each other.
    if (parent !== made) makeFolder(join(dir, (made = parent)));
    writeAnew(join(dir, path), files.get(path) as string);
  }
  writeFileSync(join(dir, completeFile), plan.complete.text, { flush: true });
}

/**
 * Writes a file in place of another one, never into it: then its folder changes, too, and a reader that remembers folders needs to list
 * no others.
 */
export function writeAnew(path: string, text: string): void {
  removeFile(path);
  writeFileSync(path, text);
}

function removeWithEmptyFolders(dir: string, path: string): void {
  removeFile(join(dir, path));
  for (let parent = dirname(path); parent !== '.'; parent = dirname(parent)) {
    try {
      rmdirSync(join(dir, parent));
    } catch {
      return; // not empty: another file lives there
    }
  }
}

function notABundle(dir: string, path: string): Problem {
  return {
    code: 'OUTPUT_NOT_A_BUNDLE',
    level: 'error',
    at: { file: join(dir, path), line: 1, column: 1 },
    message: `Cannot write the bundle to ${dir}: it holds ${path}, which is no part of a bundle`,
    hint: 'Give an empty directory or one that an earlier `sluice render` wrote',
  };
}
