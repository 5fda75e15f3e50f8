import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync } from 'node:fs';
import type { OpenFile } from '../kernel/open-file.ts';
import { findTool } from '../kernel/tools.ts';
import { limits } from '../limits.ts';
import { isThere, writing } from './files.ts';
import { StateError } from './state-error.ts';

/** The right to change the kernel and the state directory, held by one process and its tools. */
export interface Lock extends OpenFile {
  /** Inherited by tools, so that a successor also waits for their end. */
  readonly fd: number;
}

/**
 * For rollbacks, which a disk that takes no write must not prevent. Normally the lock file exists; where it does not, no process can hold
 * its lock, so the lock of the directory replaces it.
 */
function openAnyway(stateDirectory: string, path: string): number {
  try {
    return openLock(stateDirectory, path);
  } catch (error) {
    const { code = '' } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
    if (!['ENOSPC', 'EDQUOT', 'EROFS'].includes(code) || !isThere(stateDirectory)) throw error;
    return openSync(isThere(path) ? path : stateDirectory, 'r');
  }
}

function openLock(stateDirectory: string, path: string): number {
  return writing(path, () => {
    mkdirSync(stateDirectory, { recursive: true, mode: 0o700 });
    return openSync(path, 'a', 0o600);
  });
}

/**
 * Takes the lock of a state directory. flock(1) locks the open file that it inherits; the lock lives as long as this process, or a child
 * that shares the file. Nothing has to be cleaned up after a crash.
 * @param isRollback also takes the lock on a disk that takes no write
 * @throws StateError (`NODE_LOCKED`) when another process holds it
 */
export function takeLock(
  stateDirectory: string,
  waitSeconds: number = limits.lockWaitSeconds,
  isRollback = false,
): Lock {
  const path = `${stateDirectory}/lock`;
  const flock = findTool('flock');
  if (flock === undefined) throw new StateError('NODE_TOOL_MISSING', 'flock is not installed', 'Install util-linux');
  const fd = isRollback ? openAnyway(stateDirectory, path) : openLock(stateDirectory, path);
  const { status } = spawnSync(flock, ['-x', '-w', String(waitSeconds), '3'], {
    stdio: ['ignore', 'ignore', 'ignore', fd],
    env: {},
  });
  if (status !== 0) {
    closeSync(fd);
    throw new StateError(
      'NODE_LOCKED',
      `${path} is held by another sluiced`,
      'Stop it first: `systemctl stop sluiced`',
    );
  }
  return { fd, [Symbol.dispose]: () => closeSync(fd) };
}
