import { constants, fstatSync } from 'node:fs';
import { type Archive, archiveLimits, readArchive } from '@sluice/bundle';
import { reasonOf } from '@sluice/cli';
import { type Problem, refusal } from '@sluice/netfilter';
import { openFile, readUpTo } from '../../kernel/open-file.ts';
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
    using file = openFile(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    const stats = fstatSync(file.fd);
    if (!stats.isFile()) return unreadable(path, 'not a regular file');
    if (stats.size > archiveLimits.archiveBytesMax)
      return unreadable(path, `it is larger than ${archiveLimits.archiveBytesMax} bytes`);
    return readArchive(path, readUpTo(file.fd, stats.size));
  } catch (error) {
    return unreadable(path, reasonOf(error));
  }
}

/**
 * Reads the files of a directory that may hold a release. Its permissions are not checked: of a base, only files are used whose digests the
 * new release has.
 * @returns path → text, or undefined without such a directory, or with files that no bundle has
 */
export function readPlaced(path: string): ReadonlyMap<string, string> | undefined {
  try {
    using top = descend(path, undefined);
    const files = new Map<string, string>();
    walk(top, undefined, (file) => void files.set(file.path, file.read().bytes.toString('utf8')));
    return files;
  } catch (error) {
    if (error instanceof InboxError || (error as NodeJS.ErrnoException).code !== undefined) return undefined;
    throw error;
  }
}

const unreadable = (path: string, why: string): Problem =>
  refusal('INPUT_UNREADABLE', `Cannot read the archive ${path}: ${why}`, 'Pass a file that `sluice pack` wrote');
