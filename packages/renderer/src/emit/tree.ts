import { rmdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { compareText, type Problem, refusal } from '@sluice/netfilter';
import { changesFile, completeFile, completeText, fileDigest, readPath } from '@sluice/bundle';
import { listTree, readText } from '../load/tree.ts';
import { removeFile, replaceFile } from './file.ts';
import { makeFolder } from './folder.ts';

/** The changes that make a directory contain exactly the files of a bundle. Paths are sorted. */
export interface TreePlan {
  readonly write: readonly string[];
  readonly remove: readonly string[];
  /** The desired content of `.sluice-complete`, and whether it is already there. */
  readonly complete: { readonly text: string; readonly isThere: boolean };
  /** The desired content of `.sluice-changes`; without it, readers compare folders. */
  readonly changes?: string | undefined;
}

/**
 * Compares a bundle with a directory.
 * @returns the plan, or `OUTPUT_NOT_A_BUNDLE` when the directory has a foreign file: then nothing may be written
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
 * Executes the plan. `.sluice-complete` is removed first and put in place last, so an interrupted write is not mistaken for a bundle, and
 * the next write finds the remaining work by comparing again.
 * @param options `flush` waits for the disk. A writer that compares at its start needs no wait: after a power cut, readers find a digest
 * that does not match, or the bundle before
 * @throws errors of the file system: no space, no permission
 */
export function writeTree(
  dir: string,
  files: ReadonlyMap<string, string>,
  plan: TreePlan,
  options = { flush: true },
): void {
  if (plan.complete.isThere && plan.write.length === 0 && plan.remove.length === 0) return;
  makeFolder(dir);
  removeFile(join(dir, completeFile));
  for (const path of plan.remove) removeWithEmptyFolders(dir, path);
  let made = '';
  for (const path of plan.write) {
    const parent = dirname(path);
    // Paths are sorted, so files of a folder are adjacent.
    if (parent !== made) makeFolder(join(dir, (made = parent)));
    writeAgain(join(dir, path), files.get(path) as string);
  }
  if (plan.changes !== undefined) writeAgain(join(dir, changesFile), plan.changes);
  replaceFile(join(dir, completeFile), plan.complete.text, options);
}

/**
 * Writes a new file instead of overwriting the old one: this changes the folder's modification time, so a reader that caches folders
 * lists only changed ones.
 */
export function writeAgain(path: string, text: string): void {
  removeFile(path);
  writeFileSync(path, text);
}

function removeWithEmptyFolders(dir: string, path: string): void {
  removeFile(join(dir, path));
  for (let parent = dirname(path); parent !== '.'; parent = dirname(parent)) {
    try {
      rmdirSync(join(dir, parent));
    } catch {
      return; // not empty
    }
  }
}

const notABundle = (dir: string, path: string): Problem =>
  refusal(
    'OUTPUT_NOT_A_BUNDLE',
    `Cannot write the bundle to ${dir}: ${path} is not part of a bundle`,
    'Use an empty directory or one written by `sluice render`',
    { at: { file: join(dir, path), line: 1, column: 1 } },
  );
