import { randomUUID } from 'node:crypto';
import { lstatSync, realpathSync, renameSync, statSync, unlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * Replaces a file atomically: readers see the old file or the new one, and a full disk leaves the old one. The temporary file has a
 * name that readers of bundles ignore and that cannot be guessed.
 * @param options `flush`: the content is on the disk when this returns
 * @throws errors of the file system
 */
export function replaceFile(path: string, content: Uint8Array | string, { flush } = { flush: true }): void {
  const temporary = join(dirname(path), `.sluice-${randomUUID()}.tmp`);
  try {
    writeFileSync(temporary, content, { flag: 'wx', flush });
    renameSync(temporary, path);
  } catch (error) {
    removeFile(temporary);
    throw error;
  }
}

/**
 * Writes the output of a command to a file, which is replaced atomically, a pipe or a device. Follows a link.
 * @throws errors of the file system
 */
export function writeOutput(path: string, content: Uint8Array): void {
  if (statSync(path, { throwIfNoEntry: false })?.isFile()) replaceFile(realpathSync(path), content);
  else if (lstatSync(path, { throwIfNoEntry: false }) === undefined) replaceFile(path, content);
  else writeFileSync(path, content);
}

/**
 * Removes a file if it exists, also when another process removes it at the same time. `rmSync` with `force` hides the error of a
 * read-only file system.
 */
export function removeFile(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}
