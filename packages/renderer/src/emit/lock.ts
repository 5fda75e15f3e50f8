import { spawnSync } from 'node:child_process';
import { closeSync, constants, existsSync, fstatSync, openSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type Problem, refusal } from '@sluice/netfilter';
import { removeFile } from './file.ts';

/** The path in every distribution; PATH is not used. */
const flock = '/usr/bin/flock';
const waitSeconds = 60;
/** The exit code of flock(1) after a timeout, distinct from its error codes. */
const timeoutExitCode = 75;
/** Not the directory itself: a pipeline may lock that while it runs sluice. Readers of bundles ignore the name. */
const lockFile = '.sluice-lock';

/**
 * Runs `work` while holding the lock of a directory. flock(1) locks the open file that it inherits, so the lock of a killed process is
 * released. Without flock(1), or on a file system without locks, `work` runs unlocked.
 * @returns the result of `work`, or undefined when the lock was not released in time; then nothing was done
 * @throws errors of the file system and of `work`
 */
export function whileLocked<T>(dir: string, work: () => T): T | undefined {
  const path = join(dir, lockFile);
  for (;;) {
    const fd = open(path);
    if (fd === undefined) return work();
    try {
      const wait = ['-x', '-w', String(waitSeconds), '-E', String(timeoutExitCode), '3'];
      const { status } = spawnSync(flock, wait, { stdio: ['ignore', 'ignore', 'ignore', fd], env: {} });
      if (status === timeoutExitCode) return undefined;
      if (isAt(fd, path)) return removedAfter(path, work);
    } finally {
      closeSync(fd);
    }
  }
}

/** Undefined in a read-only directory: it cannot be written anyway, and a command with nothing to change must not fail. */
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

/** False when the previous holder has removed the lock file: the next holder locks a new file. */
function isAt(fd: number, path: string): boolean {
  const [own, there] = [fstatSync(fd, { bigint: true }), statSync(path, { bigint: true, throwIfNoEntry: false })];
  return there?.ino === own.ino && there.dev === own.dev;
}

/** Removes the file while it is still locked, so that it is never found in a release or left behind unreadable. */
function removedAfter<T>(path: string, work: () => T): T {
  try {
    return work();
  } finally {
    removeFile(path);
  }
}

/** Why a directory was not written: another process has its lock. */
export function busy(dir: string): Problem {
  return refusal(
    'OUTPUT_UNWRITABLE',
    `Cannot write ${dir}: another sluice process is writing a release there`,
    'Wait until that process has finished; then run the same command again',
  );
}
