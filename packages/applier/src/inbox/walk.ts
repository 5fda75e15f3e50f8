import { fstatSync, lstatSync, readdirSync, type BigIntStats } from 'node:fs';
import { limits } from '../limits.ts';
import { entryPath, type OpenDirectory, openFolder } from './descend.ts';
import { checkFile, readIn, type WalkedFile, type Stamp, stampOf } from './read.ts';
import { checkTrust, InboxError, type Trust } from './trust.ts';

/** One folder of a walk. */
export interface Folder<File> {
  /** From before it was listed. Within a tick of the file system's clock its entries may change without another stamp. */
  readonly stamp: Stamp;
  /** Its direct entries and their size. */
  readonly entries: number;
  readonly bytes: number;
  /** By name. */
  readonly files: ReadonlyMap<string, File>;
  readonly folders: ReadonlyMap<string, Folder<File>>;
}

/** The result of a visit. */
export interface Visited {
  readonly stamp: Stamp;
}

export interface WalkOptions<File extends Visited> {
  /** Left out: not checked. */
  readonly trust: Trust | undefined;
  /** False: folders with the stamp of the last walk are not listed, and their files count as unchanged. */
  readonly whole: boolean;
  /** True: the visit reads each file that the last walk did not have, which spares a look at its name. */
  readonly readsNew: boolean;
  /** @param before the result for this file in the last walk */
  readonly visit: (file: WalkedFile, before: File | undefined) => File;
}

/**
 * Visits every regular file below a directory, without reading it. `.git` is skipped. Each folder is opened from its parent and each file
 * from its folder, without following links: swapping names meanwhile has no effect.
 * @throws InboxError for anything that is neither a directory nor a regular file, for files that other users can write, and beyond the
 * limits
 */
export function walk(top: OpenDirectory, trust: Trust | undefined, visit: (file: WalkedFile) => void): void {
  const nothing: Visited = { stamp: '' };
  walkAgain(top, { trust, whole: true, readsNew: false, visit: (file) => (visit(file), nothing) });
}

/**
 * The same, reusing the result of the last walk. The top is always listed; owners and modes of folders are always checked, and the limits
 * include files that are not visited.
 * @param before the result of the last walk
 * @returns the same value for a folder in which nothing changed
 */
export function walkAgain<File extends Visited>(
  top: OpenDirectory,
  options: WalkOptions<File>,
  before?: Folder<File>,
): Folder<File> {
  const steps = walkInSteps(top, options, before);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/**
 * The same in steps of `limits.filesPerStep` files, between which other work can be done. `return` ends it early and closes its folders.
 */
export function walkInSteps<File extends Visited>(
  top: OpenDirectory,
  options: WalkOptions<File>,
  before?: Folder<File>,
): Generator<void, Folder<File>> {
  const stats = fstatSync(top.fd, { bigint: true });
  return new TreeWalk(options).list({ fd: top.fd, path: '', depth: 0 }, stats, before);
}

/** The position of a walk. */
interface WalkPosition {
  readonly fd: number;
  readonly path: string;
  readonly depth: number;
}

class TreeWalk<File extends Visited> {
  readonly #options: WalkOptions<File>;
  #entries = 0;
  #bytes = 0;

  constructor(options: WalkOptions<File>) {
    this.#options = options;
  }

  /** The stamp is from before the listing: changes during it change the stamp. */
  *list(position: WalkPosition, stats: BigIntStats, before: Folder<File> | undefined): Generator<void, Folder<File>> {
    const { visit, readsNew } = this.#options;
    const files = new Map<string, File>();
    const folders = new Map<string, Folder<File>>();
    let ownBytes = 0;
    for (const entry of readdirSync(`/proc/self/fd/${position.fd}`, { withFileTypes: true })) {
      const { name } = entry;
      if (position.path === '' && name === '.git') continue;
      this.#count(1, 0);
      if (entry.isDirectory()) {
        folders.set(name, yield* this.#enter(position, name, before?.folders.get(name)));
        continue;
      }
      const known = before?.files.get(name);
      const isOpened = readsNew && !known && entry.isFile();
      const { seen, bytes } = isOpened ? this.#open(position, name) : this.#look(position, name);
      ownBytes += bytes;
      const file = visit(seen, known);
      files.set(name, file);
      if (this.#entries % limits.filesPerStep === 0) yield;
    }
    const stamp = stampOf(stats);
    // Equal values save the comparison with the last walk, which takes half as long as the walk.
    if (before?.stamp === stamp && isSame(files, before.files) && isSame(folders, before.folders)) return before;
    return { stamp, entries: files.size + folders.size, bytes: ownBytes, files, folders };
  }

  *#enter(above: WalkPosition, name: string, before: Folder<File> | undefined): Generator<void, Folder<File>> {
    const path = pathIn(above, name);
    const depth = above.depth + 1;
    using folder = openFolder(above.fd, name);
    const { fd, stats } = folder;
    checkTrust(path, stats, 'inside', this.#options.trust);
    if (depth > limits.bundleDepthMax) throw beyond(`${path} is nested more than ${limits.bundleDepthMax} deep`);
    const position = { fd, path, depth };
    const isKnown = !this.#options.whole && before?.stamp === stampOf(stats);
    return yield* isKnown ? this.#again(position, before) : this.list(position, stats, before);
  }

  /** A folder with unchanged entries: its subfolders may still have changed. */
  *#again(position: WalkPosition, before: Folder<File>): Generator<void, Folder<File>> {
    this.#count(before.entries, before.bytes);
    const folders = new Map<string, Folder<File>>();
    for (const [name, known] of before.folders) folders.set(name, yield* this.#enter(position, name, known));
    return isSame(folders, before.folders) ? before : { ...before, folders };
  }

  /** Without a look at its name, which takes a third of the time of a first walk. */
  #open(position: WalkPosition, name: string): { seen: WalkedFile; bytes: number } {
    const path = pathIn(position, name);
    const content = readIn(position.fd, name, path, this.#options.trust);
    const bytes = Number(content.stats.size);
    this.#count(0, bytes);
    return { seen: { path, stamp: stampOf(content.stats), read: () => content }, bytes };
  }

  #look(position: WalkPosition, name: string): { seen: WalkedFile; bytes: number } {
    const path = pathIn(position, name);
    const { trust } = this.#options;
    const stats = lstatSync(entryPath(position.fd, name), { bigint: true });
    checkFile(path, stats, trust);
    const bytes = Number(stats.size);
    this.#count(0, bytes);
    return { seen: { path, stamp: stampOf(stats), read: () => readIn(position.fd, name, path, trust) }, bytes };
  }

  #count(entries: number, bytes: number): void {
    this.#entries += entries;
    this.#bytes += bytes;
    if (this.#entries > limits.bundleFilesMax) throw beyond(`more than ${limits.bundleFilesMax} files`);
    if (this.#bytes > limits.bundleBytesMax) throw beyond(`more than ${limits.bundleBytesMax} bytes`);
  }
}

const isSame = <V>(now: ReadonlyMap<string, V>, before: ReadonlyMap<string, V>): boolean =>
  now.size === before.size && [...now].every(([name, value]) => before.get(name) === value);

function pathIn(position: WalkPosition, name: string): string {
  return position.path === '' ? name : `${position.path}/${name}`;
}

function beyond(what: string): InboxError {
  return new InboxError(
    `Cannot read the directory: ${what}`,
    'See /usr/share/doc/sluice/bundle-format.md for the limits of a bundle',
  );
}
