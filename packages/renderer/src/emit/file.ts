import { randomUUID } from 'node:crypto';
import { lstatSync, renameSync, unlinkSync, writeFileSync } from 'node:fs';
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
 * Writes what a person wants to have under this name: into a pipe, a device, or what a link leads to, such as /dev/stdout; a file is
 * replaced whole.
 * @throws what the file system throws
 */
export function writeOutput(path: string, content: Uint8Array): void {
  const there = lstatSync(path, { throwIfNoEntry: false });
  if (there === undefined || there.isFile()) replaceFile(path, content);
  else writeFileSync(path, content);
}

/** Removes a file where there is one. `rmSync` with `force` does not say why a file system that is read-only refuses. */
export function removeFile(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false })) unlinkSync(path);
}
