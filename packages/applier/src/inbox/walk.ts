import { closeSync, fstatSync, lstatSync, readdirSync, type BigIntStats } from 'node:fs';
import { limits } from '../limits.ts';
import { entryPath, type OpenDirectory, openFolder } from './descend.ts';
import { checkFile, readIn, type Seen, settledStamp, type Stamp, stampOf } from './read.ts';
import { checkTrust, InboxError, type Trust } from './trust.ts';

/** One folder as a walk found it. */
export interface Folder<File> {
  /** Empty while it, or a file in it, may change without leaving a trace: such a folder is always listed again. */
  readonly stamp: Stamp;
  /** How much lies in it directly. */
  readonly entries: number;
  readonly bytes: number;
  /** By name. */
  readonly files: ReadonlyMap<string, File>;
  readonly folders: ReadonlyMap<string, Folder<File>>;
}

/** What a walk makes of each file. An empty stamp says that it may change without leaving a trace. */
export interface Visited {
  readonly stamp: Stamp;
}

export interface Manner<File extends Visited> {
  /** Left out: nothing is asked. */
  readonly trust: Trust | undefined;
  readonly nowMs: number;
  /** False: folders that have the stamp of the last walk are not listed, and their files are taken to be what they were. */
  readonly whole: boolean;
  /** @param before what the last walk made of the file in this place */
  readonly visit: (file: Seen, before: File | undefined) => File;
}

/**
 * Visits every regular file below a directory, reading none. `.git` is passed over. Each folder is opened from the one above it and
 * each file from its folder, without following links: what is swapped meanwhile leads nowhere else.
 * @throws InboxError for anything that is neither a directory nor a regular file, for what others may write, and beyond the limits
 */
export function walk(top: OpenDirectory, trust: Trust | undefined, visit: (file: Seen) => void): void {
  const nothing: Visited = { stamp: '' };
  walkAgain(top, { trust, nowMs: -Infinity, whole: true, visit: (file) => (visit(file), nothing) });
}

/**
 * The same, remembering what it found. The top is always listed; whose the folders are and who may write to them is always asked, and the
 * limits hold for all files, those that are not visited too.
 * @param before what the last walk found
 * @returns the same value for a folder in which nothing was visited
 */
export function walkAgain<File extends Visited>(
  top: OpenDirectory,
  manner: Manner<File>,
  before?: Folder<File>,
): Folder<File> {
  const stats = fstatSync(top.fd, { bigint: true });
  return new Walk(manner).list({ fd: top.fd, path: '', depth: 0 }, stats, before);
}

/** Where a walk is. */
interface Spot {
  readonly fd: number;
  readonly path: string;
  readonly depth: number;
}

class Walk<File extends Visited> {
  readonly #manner: Manner<File>;
  #entries = 0;
  #bytes = 0;

  constructor(manner: Manner<File>) {
    this.#manner = manner;
  }

  /** The stamp is from before the listing: what comes or goes meanwhile makes another one. */
  list(spot: Spot, stats: BigIntStats, before: Folder<File> | undefined): Folder<File> {
    const { visit, nowMs } = this.#manner;
    const files = new Map<string, File>();
    const folders = new Map<string, Folder<File>>();
    let ownBytes = 0;
    let isSettled = true;
    for (const entry of readdirSync(`/proc/self/fd/${spot.fd}`, { withFileTypes: true })) {
      const { name } = entry;
      if (spot.path === '' && name === '.git') continue;
      this.#count(1, 0);
      if (entry.isDirectory()) {
        folders.set(name, this.#enter(spot, name, before?.folders.get(name)));
        continue;
      }
      const { seen, bytes } = this.#look(spot, name);
      ownBytes += bytes;
      const file = visit(seen, before?.files.get(name));
      files.set(name, file);
      isSettled &&= file.stamp !== '';
    }
    const stamp = isSettled ? settledStamp(stats, nowMs) : '';
    return { stamp, entries: files.size + folders.size, bytes: ownBytes, files, folders };
  }

  #enter(above: Spot, name: string, before: Folder<File> | undefined): Folder<File> {
    const path = pathIn(above, name);
    const depth = above.depth + 1;
    const { fd, stats } = openFolder(above.fd, name);
    try {
      checkTrust(path, stats, 'inside', this.#manner.trust);
      if (depth > limits.bundleDepthMax) throw beyond(`${path} is nested more than ${limits.bundleDepthMax} deep`);
      const spot = { fd, path, depth };
      const isKnown = !this.#manner.whole && before?.stamp === stampOf(stats);
      return isKnown ? this.#again(spot, before) : this.list(spot, stats, before);
    } finally {
      closeSync(fd);
    }
  }

  /** A folder whose own entries are those of the last walk: what is in its folders may still be another. */
  #again(spot: Spot, before: Folder<File>): Folder<File> {
    this.#count(before.entries, before.bytes);
    const folders = new Map<string, Folder<File>>();
    let isSame = true;
    for (const [name, known] of before.folders) {
      const folder = this.#enter(spot, name, known);
      folders.set(name, folder);
      isSame &&= folder === known;
    }
    return isSame ? before : { ...before, folders };
  }

  #look(spot: Spot, name: string): { seen: Seen; bytes: number } {
    const path = pathIn(spot, name);
    const { trust } = this.#manner;
    const stats = lstatSync(entryPath(spot.fd, name), { bigint: true });
    checkFile(path, stats, trust);
    const bytes = Number(stats.size);
    this.#count(0, bytes);
    return { seen: { path, stamp: stampOf(stats), read: () => readIn(spot.fd, name, path, trust) }, bytes };
  }

  #count(entries: number, bytes: number): void {
    this.#entries += entries;
    this.#bytes += bytes;
    if (this.#entries > limits.bundleFilesMax) throw beyond(`more than ${limits.bundleFilesMax} files`);
    if (this.#bytes > limits.bundleBytesMax) throw beyond(`more than ${limits.bundleBytesMax} bytes`);
  }
}

function pathIn(spot: Spot, name: string): string {
  return spot.path === '' ? name : `${spot.path}/${name}`;
}

function beyond(what: string): InboxError {
  return new InboxError(
    `Cannot read the directory: ${what}`,
    '/usr/share/doc/sluice/bundle-format.md has the limits of a bundle',
  );
}
