import { closeSync, constants, fstatSync, lstatSync, openSync, readdirSync, readSync, type BigIntStats } from 'node:fs';
import { limits } from '../limits.ts';

/** Why a directory cannot be read as a bundle. */
export class InboxError extends Error {
  override readonly name = 'InboxError';
  readonly hint: string;

  constructor(message: string, hint: string) {
    super(message);
    this.hint = hint;
  }
}

/** Says whether a file is the one that was read before: device, inode, size, mtime and ctime, in nanoseconds. */
export type Stamp = string;

export function stampOf(stats: BigIntStats): Stamp {
  return `${stats.dev}:${stats.ino}:${stats.size}:${stats.mtimeNs}:${stats.ctimeNs}`;
}

/** One file of a directory that is scanned. */
export interface Seen {
  readonly path: string;
  readonly stamp: Stamp;
  readonly ctimeMs: number;
}

/**
 * Every regular file below a directory, without reading one. `.git` is passed over.
 * @throws InboxError for anything that is neither a directory nor a regular file, and beyond the limits
 */
export function listFiles(directory: string): readonly Seen[] {
  const found: Seen[] = [];
  let bytes = 0;
  const walk = (folder: string, depth: number): void => {
    if (depth > limits.bundleDepthMax) throw beyond(`${folder} is nested more than ${limits.bundleDepthMax} deep`);
    for (const entry of readdirSync(`${directory}/${folder}`, { withFileTypes: true })) {
      if (folder === '' && entry.name === '.git') continue;
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (entry.isDirectory()) walk(path, depth + 1);
      else {
        const stats = lstatSync(`${directory}/${path}`, { bigint: true });
        if (!stats.isFile())
          throw new InboxError(`Cannot read ${path}: it is no regular file`, 'A bundle has no links, devices or pipes');
        bytes += Number(stats.size);
        found.push({ path, stamp: stampOf(stats), ctimeMs: Number(stats.ctimeMs) });
      }
      if (found.length > limits.bundleFilesMax) throw beyond(`more than ${limits.bundleFilesMax} files`);
      if (bytes > limits.bundleBytesMax) throw beyond(`more than ${limits.bundleBytesMax} bytes`);
    }
  };
  walk('', 0);
  return found;
}

function beyond(what: string): InboxError {
  return new InboxError(`Cannot read the directory: ${what}`, 'packages/bundle/README.md has the limits of a bundle');
}

/**
 * The bytes of one regular file. A link in its place, a pipe and a file beyond the limit are refused; the open does not wait.
 * @returns the content with the stamp of the file that was really read
 */
export function readFileSafely(directory: string, path: string): { content: Buffer; stamp: Stamp } {
  const fd = openSync(`${directory}/${path}`, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(fd, { bigint: true });
    if (!stats.isFile())
      throw new InboxError(`Cannot read ${path}: it is no regular file`, 'A bundle has no links, devices or pipes');
    if (stats.size > limits.fileBytesMax) {
      throw new InboxError(
        `Cannot read ${path}: it is larger than ${limits.fileBytesMax} bytes`,
        'packages/bundle/README.md has the limits',
      );
    }
    const content = Buffer.alloc(Number(stats.size));
    let length = 0;
    while (length < content.length) {
      const read = readSync(fd, content, length, content.length - length, length);
      if (read === 0) break;
      length += read;
    }
    return { content: content.subarray(0, length), stamp: stampOf(stats) };
  } finally {
    closeSync(fd);
  }
}
