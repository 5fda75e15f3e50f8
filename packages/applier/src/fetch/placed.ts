import { mkdirSync, readFileSync, renameSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileDigest, sumsFile } from '@sluice/bundle';
import { compareText, type Problem } from '@sluice/netfilter';
import { readPlaced } from '../inbox/archive/read.ts';
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
    this.#digests = digestsOf(readPlaced(this.#release) ?? new Map());
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
    return fileDigest(
      [...this.#digests]
        .map(([path, digest]) => `${digest}  ${path}\n`)
        .toSorted(compareText)
        .join(''),
    );
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
    this.#digests = next;
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

  /** Safe to repeat: what was moved is no longer in `staged`. */
  #move(): void {
    const files = join(this.#staged, 'files');
    const write = [...(readPlaced(files)?.keys() ?? [])].toSorted(compareText);
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

const digestsOf = (files: ReadonlyMap<string, string>): Digests =>
  new Map([...files].map(([path, text]) => [path, fileDigest(text)]));

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
