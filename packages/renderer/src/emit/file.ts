import { randomUUID } from 'node:crypto';
import { lstatSync, realpathSync, renameSync, statSync, unlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * Replaces a file whole: whoever reads it meanwhile sees the old one or the new one, and a disk that is full leaves the old one.
 * What is beside it until then has a name that readers of bundles pass over, and that nobody else uses or knows before.
 * @throws what the file system throws
 */
export function replaceFile(path: string, content: Uint8Array | string): void {
  const temporary = join(dirname(path), `.sluice-${randomUUID()}.tmp`);
  try {
    writeFileSync(temporary, content, { flag: 'wx', flush: true });
    renameSync(temporary, path);
  } catch (error) {
    removeFile(temporary);
    throw error;
  }
}

/**
 * Writes what a person wants to have under this name, or under the one that a link there leads to: into a pipe or a device; a file is
 * replaced whole.
 * @throws what the file system throws
 */
export function writeOutput(path: string, content: Uint8Array): void {
  if (statSync(path, { throwIfNoEntry: false })?.isFile()) replaceFile(realpathSync(path), content);
  else if (lstatSync(path, { throwIfNoEntry: false }) === undefined) replaceFile(path, content);
  else writeFileSync(path, content);
}

/**
 * Removes a file where there is one, also where somebody else does so at the same time. `rmSync` with `force` does not say why a file
 * system that is read-only refuses.
 */
export function removeFile(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}
