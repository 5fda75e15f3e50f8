import { closeSync, constants, fstatSync, lstatSync, openSync, readdirSync, readSync, type BigIntStats } from 'node:fs';
import { limits } from '../limits.ts';
import { entryPath, type OpenDirectory, openFolder } from './descend.ts';
import { checkTrust, InboxError, type Trust } from './trust.ts';

/** Says whether a file is the one that was read before: device, inode, size, mtime and ctime, in nanoseconds. */
export type Stamp = string;

export function stampOf(stats: BigIntStats): Stamp {
  return `${stats.dev}:${stats.ino}:${stats.size}:${stats.mtimeNs}:${stats.ctimeNs}`;
}

/** One file of a directory that is walked through. */
export interface Seen {
  readonly path: string;
  readonly stamp: Stamp;
  readonly ctimeMs: number;
  /** Its bytes; only while the walk is at this file. */
  read(): Content;
}

/** What was really read, with the stamp of the file that it was read from. */
export interface Content {
  readonly bytes: Buffer;
  readonly stamp: Stamp;
}

/**
 * Visits every regular file below a directory, reading none. `.git` is passed over. Each folder is opened from the one above it and
 * each file from its folder, without following links: what is swapped meanwhile leads nowhere else.
 * @throws InboxError for anything that is neither a directory nor a regular file, for what others may write, and beyond the limits
 */
export function walk(top: OpenDirectory, trust: Trust | undefined, visit: (file: Seen) => void): void {
  const counts = { entries: 0, bytes: 0 };
  const enter = (fd: number, folder: string, depth: number): void => {
    if (depth > limits.bundleDepthMax) throw beyond(`${folder} is nested more than ${limits.bundleDepthMax} deep`);
    for (const entry of readdirSync(`/proc/self/fd/${fd}`, { withFileTypes: true })) {
      if (folder === '' && entry.name === '.git') continue;
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (++counts.entries > limits.bundleFilesMax) throw beyond(`more than ${limits.bundleFilesMax} files`);
      if (entry.isDirectory()) within(fd, entry.name, path, depth + 1);
      else visit(look(fd, entry.name, path));
    }
  };
  const within = (parent: number, name: string, path: string, depth: number): void => {
    const { fd, stats } = openFolder(parent, name);
    try {
      checkTrust(path, stats, 'inside', trust);
      enter(fd, path, depth);
    } finally {
      closeSync(fd);
    }
  };
  const look = (fd: number, name: string, path: string): Seen => {
    const stats = lstatSync(entryPath(fd, name), { bigint: true });
    checkFile(path, stats, trust);
    counts.bytes += Number(stats.size);
    if (counts.bytes > limits.bundleBytesMax) throw beyond(`more than ${limits.bundleBytesMax} bytes`);
    return { path, stamp: stampOf(stats), ctimeMs: Number(stats.ctimeMs), read: () => readIn(fd, name, path, trust) };
  };
  enter(top.fd, '', 0);
}

/** True when the directory has an entry of this name, whatever it is. */
export function hasEntry(top: OpenDirectory, name: string): boolean {
  return lstatSync(entryPath(top.fd, name), { throwIfNoEntry: false }) !== undefined;
}

function checkFile(path: string, stats: BigIntStats, trust: Trust | undefined): void {
  if (!stats.isFile())
    throw new InboxError(`Cannot read ${path}: it is no regular file`, 'A bundle has no links, devices or pipes');
  checkTrust(path, stats, 'inside', trust);
  if (stats.size > limits.fileBytesMax) {
    const what = `Cannot read ${path}: it is larger than ${limits.fileBytesMax} bytes`;
    throw new InboxError(what, 'packages/bundle/README.md has the limits');
  }
}

function beyond(what: string): InboxError {
  return new InboxError(`Cannot read the directory: ${what}`, 'packages/bundle/README.md has the limits of a bundle');
}

/** The open neither follows a link nor waits for a pipe; what was opened is checked, not what a name said before. */
function readIn(folder: number, name: string, path: string, trust: Trust | undefined): Content {
  const fd = openSync(
    entryPath(folder, name),
    constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY,
  );
  try {
    const stats = fstatSync(fd, { bigint: true });
    checkFile(path, stats, trust);
    const bytes = Buffer.allocUnsafe(Number(stats.size));
    let length = 0;
    while (length < bytes.length) {
      const read = readSync(fd, bytes, length, bytes.length - length, length);
      if (read === 0) break;
      length += read;
    }
    return { bytes: bytes.subarray(0, length), stamp: stampOf(stats) };
  } finally {
    closeSync(fd);
  }
}
