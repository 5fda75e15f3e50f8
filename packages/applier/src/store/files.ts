import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Files that survive power loss. A file is either what it was or what it should be: written beside its place, synced, renamed,
 * and then its directory is synced. Without the first sync ext4 and xfs leave an empty file, without the last one the old one.
 */

/** Replaces a file whole. When it returns, the new content is on the disk. */
export function writeDurably(path: string, content: string): void {
  const temporary = `${path}.tmp`;
  writeSynced(temporary, content);
  renameSync(temporary, path);
  syncDirectory(dirname(path));
}

/** Writes a file where nobody looks yet; its directory is not synced. */
export function writeSynced(path: string, content: string): void {
  const fd = openSync(path, 'w', 0o600);
  try {
    for (let rest = Buffer.from(content); rest.length > 0; ) rest = rest.subarray(writeSync(fd, rest));
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Makes a directory of files appear under its name at once. What was there under this name before goes. */
export function publishDirectory(path: string, files: Readonly<Record<string, string>>): void {
  const temporary = `${path}.tmp`;
  rmSync(temporary, { recursive: true, force: true });
  mkdirSync(temporary, { recursive: true, mode: 0o700 });
  for (const [name, content] of Object.entries(files)) writeSynced(`${temporary}/${name}`, content);
  syncDirectory(temporary);
  rmSync(path, { recursive: true, force: true });
  renameSync(temporary, path);
  syncDirectory(dirname(path));
}

export function syncDirectory(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** The text of a file, or undefined when there is none. Other errors are thrown. */
export function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
