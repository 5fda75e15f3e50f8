import { spawnSync } from 'node:child_process';
import { closeSync, constants, existsSync, fstatSync, openSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { removeFile } from './file.ts';

/** The path in every distribution; PATH is not used. */
const flock = '/usr/bin/flock';
const waitSeconds = 60;
/** What flock(1) ends with when the time is up; it has codes of its own for what it cannot do. */
const isHeld = 75;
/** Not the directory itself: a pipeline may hold that one while it calls us. Readers of bundles pass over the name. */
const lockFile = '.sluice-lock';

/**
 * Does something in a directory while nobody else does so in this way. flock(1) locks the open file that it inherits; what one that was
 * killed leaves is nobody's. Where flock(1) is missing, or the file system has no such locks, nobody is kept out.
 * @returns what `work` returned, or undefined when another process did not end in time; then nothing was done
 * @throws what the file system and `work` throw
 */
export function whileLocked<T>(dir: string, work: () => T): T | undefined {
  const path = join(dir, lockFile);
  for (;;) {
    const fd = open(path);
    if (fd === undefined) return work();
    try {
      const wait = ['-x', '-w', String(waitSeconds), '-E', String(isHeld), '3'];
      const { status } = spawnSync(flock, wait, { stdio: ['ignore', 'ignore', 'ignore', fd], env: {} });
      if (status === isHeld) return undefined;
      if (isAt(fd, path)) return removedAfter(path, work);
    } finally {
      closeSync(fd);
    }
  }
}

/** Undefined where no file can be made: there nothing can be written either, and who finds all as it should be need not be refused. */
function open(path: string): number | undefined {
  const { O_RDONLY, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;
  try {
    return openSync(path, O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if ((code === 'EROFS' || code === 'EACCES') && !existsSync(path)) return undefined;
    throw error;
  }
}

/** False when who had the lock has removed its file meanwhile: the next one locks another. */
function isAt(fd: number, path: string): boolean {
  const [own, there] = [fstatSync(fd, { bigint: true }), statSync(path, { bigint: true, throwIfNoEntry: false })];
  return there?.ino === own.ino && there.dev === own.dev;
}

/** The file goes while it is still locked, so that nobody finds it in a release, nor one of somebody else that may not be opened. */
function removedAfter<T>(path: string, work: () => T): T {
  try {
    return work();
  } finally {
    removeFile(path);
  }
}
