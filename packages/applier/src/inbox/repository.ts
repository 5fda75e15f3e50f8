import { type BigIntStats, type Dirent, lstatSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { limits } from '../limits.ts';
import { descend } from './descend.ts';
import type { Extent } from './files.ts';
import { settledStamp, type Stamp, stampOf } from './read.ts';
import { checkWriters, InboxError, type Trust, untrusted } from './trust.ts';

/** The directories that Git reads. */
interface GitPlaces {
  /** The requested directory, in a work tree. */
  readonly directory: string;
  /** The `.git` directory, or where `.git` leads. */
  readonly own: string;
  /** The directory that all work trees of the repository share; equal to `own`, except for `git worktree`. */
  readonly common: string;
}

/** The files and folders of a Git directory that decide what HEAD is, and how it is read. */
const files = ['HEAD', 'config', 'config.worktree', 'commondir', 'gitdir', 'packed-refs'];
const folders = ['refs', 'reftable', 'objects'];

/** A folder in which everything is trusted. */
interface KnownFolder {
  readonly stamp: Stamp;
  readonly folders: readonly string[];
}

/**
 * Checks who can write what Git reads of a repository. A user who can move a ref or replace an object, which Git does not verify, decides
 * what the bundle is; so does a group that shares the work tree (`umask 002`, `core.sharedRepository`).
 */
export class GitRepository {
  readonly #trust: Trust;
  readonly #nowMs: () => number;
  #known = new Map<string, KnownFolder>();
  #next = new Map<string, KnownFolder>();
  #entries = 0;

  /** @param nowMs the time of day */
  constructor(trust: Trust, nowMs: () => number) {
    this.#trust = trust;
    this.#nowMs = nowMs;
  }

  /**
   * Opens folders only.
   * @param extent `changed`: files in unchanged folders are not checked again
   * @throws InboxError (`BUNDLE_UNTRUSTED`) when another user can write to some of it
   */
  check({ directory, own, common }: GitPlaces, extent: Extent): void {
    if (extent === 'whole') this.#known.clear();
    this.#next = new Map();
    this.#entries = 0;
    this.#checkEntry(directory, own);
    for (const place of new Set([own, common])) this.#checkPlace(place);
    this.#known = this.#next;
  }

  /** Checks the `.git` that led Git there: a file or a link leads where its owner wants. */
  #checkEntry(directory: string, own: string): void {
    const path = join(directory, '.git');
    if (path === own) return;
    const stats = look(path);
    if (stats?.isSymbolicLink() && leadsToFolder(path)) {
      if (this.#targetOf(path) === own) return;
    } else if (stats && !stats.isDirectory()) return this.#file(path, stats, path);
    // Git ignores a directory that is not a repository.
    if (directory !== '/') this.#checkEntry(dirname(directory), own);
  }

  /** Follows links to a folder. Other users must not be able to replace any link or folder on the path. */
  #targetOf(path: string): string {
    using target = descend(path, this.#trust);
    return target.path;
  }

  #checkPlace(place: string): void {
    const top = look(place);
    if (top) checkWriters(place, top, 'inside', this.#trust, place);
    this.#targetOf(place);
    for (const name of files) {
      const stats = look(`${place}/${name}`);
      if (stats) this.#file(`${place}/${name}`, stats, place);
    }
    // An empty file has no alternates.
    const others = look(`${place}/objects/info/alternates`);
    if (others && others.size > 0n) throw borrows(place);
    for (const name of folders) this.#folder(`${place}/${name}`, place);
  }

  #folder(path: string, place: string): void {
    const stats = look(path);
    if (!stats) return;
    this.#count();
    if (!stats.isDirectory()) throw irregular(path);
    checkWriters(path, stats, 'inside', this.#trust, place);
    const known = this.#known.get(path);
    const inside = known?.stamp === stampOf(stats) ? known.folders : this.#list(path, place);
    this.#next.set(path, { stamp: settledStamp(stats, this.#nowMs()), folders: inside });
    for (const name of inside) this.#folder(`${path}/${name}`, place);
  }

  /** @returns the folders in it */
  #list(path: string, place: string): readonly string[] {
    const inside: string[] = [];
    for (const entry of entriesIn(path)) {
      const stats = entry.isDirectory() ? undefined : look(`${path}/${entry.name}`);
      if (entry.isDirectory()) inside.push(entry.name);
      // Git removes its temporary files meanwhile.
      else if (stats) this.#file(`${path}/${entry.name}`, stats, place);
    }
    return inside;
  }

  #file(path: string, stats: BigIntStats, place: string): void {
    this.#count();
    if (!stats.isFile()) throw irregular(path);
    checkWriters(path, stats, 'inside', this.#trust, place);
  }

  #count(): void {
    if (++this.#entries <= limits.gitEntriesMax) return;
    throw new InboxError(
      `Cannot read the Git tree: its repository has more than ${limits.gitEntriesMax} files`,
      'Pack it: git gc',
    );
  }
}

/** The entries of a folder; none when Git has removed the emptied folder meanwhile. */
function entriesIn(path: string): readonly Dirent[] {
  try {
    return readdirSync(path, { withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return [];
  }
}

function leadsToFolder(link: string): boolean {
  return statSync(link, { throwIfNoEntry: false })?.isDirectory() === true;
}

function look(path: string): BigIntStats | undefined {
  return lstatSync(path, { bigint: true, throwIfNoEntry: false });
}

function irregular(path: string): InboxError {
  return untrusted(`${path} is not a regular file or folder`, 'Clone the repository again, without links in it');
}

function borrows(place: string): InboxError {
  return untrusted(
    `${place} borrows objects of another repository (objects/info/alternates)`,
    `Copy them into this repository: git repack -a -d, then rm ${place}/objects/info/alternates`,
  );
}
