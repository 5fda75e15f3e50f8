import { spawnSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';

/** Where every distribution has it; PATH is not asked. */
const flock = '/usr/bin/flock';
const waitSeconds = 60;
/** What flock(1) ends with when the time is up; it has codes of its own for what it cannot do. */
const isHeld = 75;

/**
 * Does something in a directory while nobody else does so in this way. flock(1) locks the open directory that it inherits: no file has
 * to lie there, and nothing is to be cleaned up after a crash. Where flock(1) is missing, or the file system has no such locks, nobody
 * is kept out.
 * @returns what `work` returned, or undefined when another process did not end in time; then nothing was done
 * @throws what the file system and `work` throw
 */
export function whileLocked<T>(dir: string, work: () => T): T | undefined {
  const fd = openSync(dir, 'r');
  try {
    const wait = ['-x', '-w', String(waitSeconds), '-E', String(isHeld), '3'];
    const { status } = spawnSync(flock, wait, { stdio: ['ignore', 'ignore', 'ignore', fd], env: {} });
    return status === isHeld ? undefined : work();
  } finally {
    closeSync(fd);
  }
}
