import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { type Archive, archiveLimits, readArchive } from '@sluice/bundle';
import { reasonOf } from '@sluice/cli';
import type { Problem } from '@sluice/netfilter';
import { descend } from '../descend.ts';
import { walk } from '../walk.ts';
import { InboxError } from '../trust.ts';

/**
 * Reads an archive from a file. Nothing in it is verified yet.
 * @returns the archive, `ARCHIVE_INVALID`, or `INPUT_UNREADABLE`
 */
export function readArchiveFile(path: string): Archive | Problem {
  try {
    // A pipe must not block.
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    try {
      const stats = fstatSync(fd);
      if (!stats.isFile()) return unreadable(path, 'not a regular file');
      if (stats.size > archiveLimits.archiveBytesMax)
        return unreadable(path, `it is larger than ${archiveLimits.archiveBytesMax} bytes`);
      return readArchive(path, readUpTo(fd, stats.size));
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    return unreadable(path, reasonOf(error));
  }
}

/** Of a file that grows meanwhile, only the initial size is read. */
function readUpTo(fd: number, size: number): Buffer {
  const bytes = Buffer.allocUnsafe(size);
  let length = 0;
  while (length < size) {
    const read = readSync(fd, bytes, length, size - length, length);
    if (read === 0) break;
    length += read;
  }
  return bytes.subarray(0, length);
}

/**
 * Reads the files of a directory that may hold a release. Its permissions are not checked: of a base, only files are used whose digests the
 * new release has.
 * @returns path → text, or undefined without such a directory, or with files that no bundle has
 */
export function readPlaced(path: string): ReadonlyMap<string, string> | undefined {
  try {
    const top = descend(path, undefined);
    try {
      const files = new Map<string, string>();
      walk(top, undefined, (file) => void files.set(file.path, file.read().bytes.toString('utf8')));
      return files;
    } finally {
      top.close();
    }
  } catch (error) {
    if (error instanceof InboxError || (error as NodeJS.ErrnoException).code !== undefined) return undefined;
    throw error;
  }
}

function unreadable(path: string, why: string): Problem {
  return {
    code: 'INPUT_UNREADABLE',
    level: 'error',
    message: `Cannot read the archive ${path}: ${why}`,
    hint: 'Pass a file that `sluice pack` wrote',
  };
}
