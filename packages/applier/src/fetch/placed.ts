import { mkdirSync, readdirSync, readFileSync, renameSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileDigest, sumsFile } from '@sluice/bundle';
import { compareText, type Problem } from '@sluice/netfilter';
import { descend } from '../inbox/descend.ts';
import { InboxError } from '../inbox/trust.ts';
import { walk } from '../inbox/walk.ts';
import { syncFileSystem } from '../inbox/archive/place.ts';
import type { Run } from '../kernel/command.ts';
import { releasePath } from '../config-source.ts';

/** Path → digest of the file. */
export type Digests = ReadonlyMap<string, string>;

/**
 * The release that is placed, in `release` of the fetch directory. A release is put in place in two steps, so that a process that ends in
 * between, or a full disk, costs nothing:
 *
 * 1. Its changed files are written to `staged`, and synced. Until the file `staged/ready` is there, the old release is untouched.
 * 2. They are renamed into the release, `SHA256SUMS` last: without it, or with an old one, readers know that a writer is at work. What a
 *    killed process left of this step is finished by the next one, from `staged` alone.
 */
export class PlacedRelease {
  readonly #directory: string;
  readonly #run: Run;
  #digests: Digests = new Map();
  #digest: string | undefined;
  /** What `staged` has is not in place, or not all of it. */
  #isHalf = true;

  /**
   * Finishes what a killed process left, and reads what is placed.
   * @throws the error of the file system
   */
  constructor(directory: string, run: Run) {
    this.#directory = directory;
    this.#run = run;
    mkdirSync(directory, { recursive: true, mode: 0o755 });
    this.recover();
  }

  /**
   * Finishes what a killed process, or an error of the disk, left. Does nothing where all is in place.
   * @throws the error of the file system
   */
  recover(): void {
    if (!this.#isHalf) return;
    if (isFile(this.#ready)) this.#move();
    rmSync(this.#staged, { recursive: true, force: true });
    this.#keep(digestsIn(this.#release));
    this.#isHalf = false;
  }

  get #release(): string {
    return releasePath({ directory: this.#directory });
  }
  get #staged(): string {
    return join(this.#directory, 'staged');
  }
  get #ready(): string {
    return join(this.#staged, 'ready');
  }

  /** The digest of all files, signatures and openings among them: what a record of this release is compared with. */
  get digest(): string {
    this.#digest ??= fileDigest(linesOf(this.#digests));
    return this.#digest;
  }

  /** The paths of a release that differ from what is placed. @param next path → digest of its files */
  lacks(next: Digests): ReadonlySet<string> {
    return new Set([...next].filter(([path, digest]) => this.#digests.get(path) !== digest).map(([path]) => path));
  }

  /**
   * Makes the release that of these files. Only files that differ are written.
   * @param next path → digest of all of its files
   * @param files those that `lacks` names, verified; its errors end the placement
   * @returns how many are written or removed; or why nothing was: the disk takes no write
   * @throws the error of the file system; then the old release is still there, or the next process finishes the new one
   */
  async place(next: Digests, files: AsyncIterable<ReadonlyMap<string, string>>): Promise<number | Problem> {
    const count = this.lacks(next).size;
    const remove = [...this.#digests.keys()].filter((path) => !next.has(path));
    if (count + remove.length === 0) return 0;
    try {
      const unsynced = await this.#stage(files, remove);
      if (unsynced) return unsynced;
    } catch (error) {
      rmSync(this.#staged, { recursive: true, force: true });
      throw error;
    }
    this.#isHalf = true;
    this.#move();
    rmSync(this.#staged, { recursive: true, force: true });
    this.#keep(next);
    this.#isHalf = false;
    return count + remove.length;
  }

  async #stage(
    files: AsyncIterable<ReadonlyMap<string, string>>,
    remove: readonly string[],
  ): Promise<Problem | undefined> {
    rmSync(this.#staged, { recursive: true, force: true });
    put(join(this.#staged, 'remove'), remove.map((path) => `${path}\n`).join(''));
    for await (const part of files) for (const [path, text] of part) put(join(this.#staged, 'files', path), text);
    const unsynced = await syncFileSystem(this.#staged, this.#run);
    if (unsynced) return unsynced;
    put(this.#ready, '');
    return undefined;
  }

  #keep(digests: Digests): void {
    this.#digests = digests;
    this.#digest = undefined;
  }

  /** Safe to repeat: what was moved is no longer in `staged`. */
  #move(): void {
    const files = join(this.#staged, 'files');
    const write = pathsIn(files);
    const remove = readFileSync(join(this.#staged, 'remove'), 'utf8')
      .split('\n')
      .filter((path) => path !== '');
    if (write.includes(sumsFile)) rmSync(join(this.#release, sumsFile), { force: true });
    for (const path of remove) removeWithFolders(this.#release, path);
    for (const path of [...write.filter((one) => one !== sumsFile), ...write.filter((one) => one === sumsFile)]) {
      mkdirSync(dirname(join(this.#release, path)), { recursive: true, mode: 0o755 });
      renameSync(join(files, path), join(this.#release, path));
    }
  }
}

const linesOf = (digests: Digests): string =>
  [...digests]
    .map(([path, digest]) => `${digest}  ${path}\n`)
    .toSorted(compareText)
    .join('');

/** One file after the other: all of them together are 40 MB at 10,000 Services. */
function digestsIn(dir: string): Digests {
  const digests = new Map<string, string>();
  if (statSync(dir, { throwIfNoEntry: false }) === undefined) return digests;
  try {
    using top = descend(dir, undefined);
    walk(top, undefined, (file) => void digests.set(file.path, fileDigest(file.read().bytes)));
    return digests;
  } catch (error) {
    if (!(error instanceof InboxError)) throw error;
    // A link, a device or the like, which the daemon refuses: all of it is made anew.
    rmSync(dir, { recursive: true, force: true });
    return new Map();
  }
}

/** Sorted. */
function pathsIn(dir: string): readonly string[] {
  if (statSync(dir, { throwIfNoEntry: false }) === undefined) return [];
  const entries = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return entries.map((entry) => join(entry.parentPath, entry.name).slice(dir.length + 1)).toSorted(compareText);
}

const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() === true;

function put(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
  writeFileSync(path, text, { mode: 0o644 });
}

function removeWithFolders(release: string, path: string): void {
  rmSync(join(release, path), { force: true });
  for (let folder = dirname(path); folder !== '.'; folder = dirname(folder)) {
    try {
      rmdirSync(join(release, folder));
    } catch {
      return; // not empty
    }
  }
}
