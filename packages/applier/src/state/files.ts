import { fsyncSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { openFile, unlessMissing } from '../kernel/open-file.ts';
import { writeAll } from '../kernel/whole-text.ts';
import { limits } from '../limits.ts';
import { StateError } from './state-error.ts';

/**
 * Files that survive power loss. A file has either its old or its new content: written under another name, synced, renamed, and then its
 * directory is synced. Without the first sync ext4 and xfs leave an empty file, without the last one the old one.
 */

/**
 * Replaces a file. When it returns, the new content is on the disk.
 * @param isSynced false: it does not wait for the disk, and after a power cut the file may be empty
 * @throws StateError when the disk takes no write
 */
export function replaceFile(path: string, content: string, isSynced = true): void {
  writing(path, () => {
    const temporary = `${path}.tmp`;
    writeSynced(temporary, content, isSynced);
    renameSync(temporary, path);
    if (isSynced) syncPath(dirname(path));
  });
}

/** Runs a write to the state directory. A full, read-only or broken disk becomes a `StateError` with a hint. */
export function writing<T>(path: string, write: () => T): T {
  try {
    return write();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    const hint = hints[code] ?? 'Check that root can write there, and that the disk works';
    throw new StateError('NODE_STATE_INVALID', `${path} cannot be written: ${message}`, hint, error);
  }
}

const full = 'Free space on its file system, or set `state` in sluiced.yaml to a directory on another one';
const readOnly = 'Remount its file system read-write, or set `state` in sluiced.yaml to a directory on another one';
const hints: Readonly<Record<string, string>> = { ENOSPC: full, EDQUOT: full, EROFS: readOnly };

/** Writes a file that is not in use yet; its directory is not synced. @param isSynced false: the file is not synced either */
export function writeSynced(path: string, content: string, isSynced = true): void {
  using file = openFile(path, 'w', 0o600);
  writeAll(file.fd, content);
  if (isSynced) fsyncSync(file.fd);
}

/**
 * Publishes a directory of files under a name, replacing what was there. Node cannot exchange two names: between two renames the old
 * directory has the name of `asidePath` only, until the next process finishes the publication.
 * @throws StateError when the disk takes no write; its partial files are removed
 */
export function publishDirectory(path: string, files: Readonly<Record<string, string>>): void {
  const temporary = `${path}.tmp`;
  try {
    writing(path, () => {
      rmSync(temporary, { recursive: true, force: true });
      mkdirSync(temporary, { recursive: true, mode: 0o700 });
      for (const [name, content] of Object.entries(files)) writeSynced(`${temporary}/${name}`, content);
      syncPath(temporary);
      finishPublication(path);
      if (isThere(path)) renameSync(path, asidePath(path));
      renameSync(temporary, path);
      syncPath(dirname(path));
      discard(asidePath(path));
    });
  } catch (error) {
    discard(temporary);
    finishPublication(path);
    throw error;
  }
}

/** The old directory while a new one is published under its name. */
export const asidePath = (path: string): string => `${path}.old`;

/** After an interrupted publication: either directory gets the name, the other one is removed. Does nothing on a disk that takes no write. */
export function finishPublication(path: string): void {
  try {
    if (!isThere(asidePath(path))) return;
    if (isThere(path)) discard(asidePath(path));
    else renameSync(asidePath(path), path);
  } catch {
    // The next process tries again.
  }
}

/** Frees the space of a failed attempt, if the disk allows that. */
export function discard(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch {
    // The write that must succeed reports the error.
  }
}

/**
 * Removes partial files that a killed process left in this directory. Does nothing on a disk that takes no write.
 * @param isOwn whether a file of this name is Sluice's, in a directory shared with other programs
 */
export function discardPartialFiles(directory: string, pause?: Pause, isOwn = (_name: string): boolean => true): void {
  for (const name of namesIn(directory, pause))
    if (isPart(name) && isOwn(name.slice(0, -partEnd.length))) discard(`${directory}/${name}`);
}

/** The names in a directory without partial files; none where it does not exist. */
export function wholeNames(directory: string, pause?: Pause): readonly string[] {
  return namesIn(directory, pause).filter((name) => !isPart(name));
}

function namesIn(directory: string, pause?: Pause): readonly string[] {
  return readWithRetry(directory, () => (isThere(directory) ? readdirSync(directory) : []), pause) ?? [];
}

const partEnd = '.tmp';
const isPart = (name: string): boolean => name.endsWith(partEnd);

/** Waits until what was written to a file, or a directory, is on the disk. @throws the error of the disk */
export function syncPath(path: string): void {
  using file = openFile(path, 'r');
  fsyncSync(file.fd);
}

/** The text of a file, or undefined when there is none. Other errors are thrown. */
export const readIfThere = (path: string): string | undefined => unlessMissing(() => readFileSync(path, 'utf8'));

/**
 * Reads with retries, because the next read may succeed. If it does not, the error decides. An error of the disk, such as EIO of a bad
 * sector or EUCLEAN of a damaged file system, will not go away, and a node that waited for it would have no rules after a boot. A shortage
 * of this process says nothing about the disk.
 * @param path for messages
 * @param attempts 1 where waiting has not helped before
 * @returns undefined when the disk cannot read it: a replacement may be used
 * @throws StateError when this process has no permission, or is short of memory or files: nothing may be concluded
 */
export function readWithRetry<T>(
  path: string,
  read: () => T,
  pause: Pause = pauseShortly,
  attempts: number = limits.readAttemptsMax,
): T | undefined {
  for (let attempt = 1; ; attempt++) {
    try {
      return read();
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === undefined) throw error;
      if (withoutRights.has(code)) throw unreadable(path, message, 'Run it as root');
      if (attempt < attempts) pause();
      else if (withoutMeans.has(code)) throw unreadable(path, message, meansHint);
      else return undefined;
    }
  }
}

/** The pause between two attempts. */
export type Pause = () => void;

/** Permissions do not change while we wait. */
const withoutRights: ReadonlySet<string> = new Set(['EACCES', 'EPERM']);
const withoutMeans: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN', 'EINTR', 'EBUSY']);
const meansHint =
  'The kernel was not changed and keeps its rules. Find the process that uses up the files or memory of this machine; then sluiced reads it again';

function unreadable(path: string, why: string, hint: string): StateError {
  return new StateError('NODE_STATE_INVALID', `${path} cannot be read: ${why}`, hint);
}

/** Blocks the process, which can do nothing without the state directory. */
function pauseShortly(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, limits.readPauseMs);
}

/** The text of a file that has a replacement: undefined when it does not exist, else as `readWithRetry`. */
export function readIfWhole(path: string, pause?: Pause, attempts?: number): string | undefined {
  return readWithRetry(path, () => readIfThere(path), pause, attempts);
}

/** Whether a file exists. Other errors are thrown: a file that cannot be checked may exist. */
export function isThere(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}
