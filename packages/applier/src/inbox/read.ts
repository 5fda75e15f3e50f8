import { constants, fstatSync, lstatSync, type BigIntStats } from 'node:fs';
import { openFile, readUpTo } from '../kernel/open-file.ts';
import { limits } from '../limits.ts';
import { entryPath, type OpenDirectory } from './descend.ts';
import { checkTrust, InboxError, type Trust } from './trust.ts';

/** Identifies the version of a file: device, inode, size, mtime and ctime, in nanoseconds. */
export type Stamp = string;

export function stampOf(stats: BigIntStats): Stamp {
  // Joined, to be one compact string: there is one for each of 10,000 files.
  return [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join(':');
}

/** The size of the file with a stamp; 0 for an empty one. */
export const bytesOf = (stamp: Stamp): number => Number(stamp.split(':')[2] ?? 0);

/** Whether the next change of a file will change its stamp: within one tick of the file system's clock a change leaves no trace. */
export const isSettled = (stats: BigIntStats, nowMs: number): boolean => nowMs - Number(stats.ctimeMs) >= limits.racyMs;

/** The stamp of a settled file; empty for another one. */
export const settledStamp = (stats: BigIntStats, nowMs: number): Stamp =>
  isSettled(stats, nowMs) ? stampOf(stats) : '';

/** One file of a walk. */
export interface WalkedFile {
  readonly path: string;
  readonly stamp: Stamp;
  /** Its bytes; only while the walk is at this file. */
  read(): Content;
}

/** The bytes of a file, with its stats at that time. */
export interface Content {
  readonly bytes: Buffer;
  readonly stats: BigIntStats;
}

/** True when the directory has an entry of this name, of any kind. */
export function hasEntry(top: OpenDirectory, name: string): boolean {
  return lstatSync(entryPath(top.fd, name), { throwIfNoEntry: false }) !== undefined;
}

/** @throws InboxError when it is not a regular file, is too large, or other users can write to it */
export function checkFile(path: string, stats: BigIntStats, trust: Trust | undefined): void {
  if (!stats.isFile())
    throw new InboxError(`Cannot read ${path}: not a regular file`, 'A bundle has no links, devices or pipes');
  checkTrust(path, stats, 'inside', trust);
  if (stats.size > limits.fileBytesMax) {
    const what = `Cannot read ${path}: larger than ${limits.fileBytesMax} bytes`;
    throw new InboxError(what, 'See /usr/share/doc/sluice/bundle-format.md for the limits');
  }
}

/** Reads a file of an open folder. The open follows no link and waits for no pipe; the open file is checked, not its name. */
export function readIn(folder: number, name: string, path: string, trust: Trust | undefined): Content {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = constants;
  using file = openFile(entryPath(folder, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  const stats = fstatSync(file.fd, { bigint: true });
  checkFile(path, stats, trust);
  return { bytes: readUpTo(file.fd, Number(stats.size)), stats };
}
