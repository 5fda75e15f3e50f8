import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { limits } from '../limits.ts';
import { StateError } from './state-error.ts';

/**
 * Files that survive power loss. A file is either what it was or what it should be: written beside its place, synced, renamed,
 * and then its directory is synced. Without the first sync ext4 and xfs leave an empty file, without the last one the old one.
 */

/**
 * Replaces a file whole. When it returns, the new content is on the disk.
 * @throws StateError when the disk does not take it
 */
export function writeDurably(path: string, content: string): void {
  writing(path, () => {
    const temporary = `${path}.tmp`;
    writeSynced(temporary, content);
    renameSync(temporary, path);
    syncDirectory(dirname(path));
  });
}

/** Does what writes to the state directory. A disk that is full, read-only or broken is a `StateError` with what to do about it. */
export function writing<T>(path: string, write: () => T): T {
  try {
    return write();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    const hint = hints[code] ?? 'See that root can write there and that the disk is well';
    throw new StateError('NODE_STATE_INVALID', `${path} cannot be written: ${message}`, hint, error);
  }
}

const full = 'Make room on its file system, or set `state` in sluiced.yaml to a directory on another one';
const readOnly = 'Mount its file system writable, or set `state` in sluiced.yaml to a directory on another one';
const hints: Readonly<Record<string, string>> = { ENOSPC: full, EDQUOT: full, EROFS: readOnly };

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

/**
 * Makes a directory of files appear under its name at once. What was there under this name before goes.
 * @throws StateError when the disk does not take it; what was written by then is gone again
 */
export function publishDirectory(path: string, files: Readonly<Record<string, string>>): void {
  const temporary = `${path}.tmp`;
  try {
    writing(path, () => {
      rmSync(temporary, { recursive: true, force: true });
      mkdirSync(temporary, { recursive: true, mode: 0o700 });
      for (const [name, content] of Object.entries(files)) writeSynced(`${temporary}/${name}`, content);
      syncDirectory(temporary);
      rmSync(path, { recursive: true, force: true });
      renameSync(temporary, path);
      syncDirectory(dirname(path));
    });
  } catch (error) {
    discard(temporary);
    throw error;
  }
}

/** Gives the room back that a failed attempt took, where the disk lets us. */
export function discard(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch {
    // Why nothing can be written is said where something must be.
  }
}

/**
 * Gives back what a process left that ended while it wrote files of this directory. It does no harm on a disk that takes no write any more.
 * @param isOwn whether a file of this name is Sluice's, where others may have theirs, too
 */
export function discardParts(directory: string, pause?: Pause, isOwn = (_name: string): boolean => true): void {
  for (const name of namesIn(directory, pause))
    if (isPart(name) && isOwn(name.slice(0, -partEnd.length))) discard(`${directory}/${name}`);
}

/** The names of everything in a directory but of what a process writes, or left, beside its place; none where it is not there. */
export function wholeNames(directory: string, pause?: Pause): readonly string[] {
  return namesIn(directory, pause).filter((name) => !isPart(name));
}

function namesIn(directory: string, pause?: Pause): readonly string[] {
  return readPatiently(directory, () => (isThere(directory) ? readdirSync(directory) : []), pause) ?? [];
}

const partEnd = '.tmp';
const isPart = (name: string): boolean => name.endsWith(partEnd);

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

/**
 * Reads what may not be guessed at: what fails is tried again, because the next read may succeed. In the end the reason decides. What
 * the disk says, such as EIO of a bad sector or EUCLEAN of a file system that found itself damaged, no later read will make good, and a
 * node that waited for it would have no rules after a boot. What is the matter with this process says nothing of the disk.
 * @param path for words
 * @param attempts 1 where waiting was of no use before
 * @returns undefined when the disk does not give it back: others may stand in for it
 * @throws StateError when this process may not read it, or lacks the means: nothing may be concluded
 */
export function readPatiently<T>(
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

/** Between two attempts. */
export type Pause = () => void;

/** Nobody gives rights while we wait. */
const withoutRights: ReadonlySet<string> = new Set(['EACCES', 'EPERM']);
const withoutMeans: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN', 'EINTR', 'EBUSY']);
const meansHint =
  'The kernel was not touched and keeps its rules. Find out what takes all files or memory of this machine; then it is read again';

function unreadable(path: string, why: string, hint: string): StateError {
  return new StateError('NODE_STATE_INVALID', `${path} cannot be read: ${why}`, hint);
}

/** Holds everything up: whoever reads the state directory can do nothing without it. */
function pauseShortly(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, limits.readPauseMs);
}

/** The text of a file that others may stand in for: undefined when it is not there, else as `readPatiently`. */
export function readIfWhole(path: string, pause?: Pause, attempts?: number): string | undefined {
  return readPatiently(path, () => readIfThere(path), pause, attempts);
}

/** Whether a file is there. Other errors are thrown: what cannot be looked for may be there. */
export function isThere(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}
