import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  readlinkSync,
} from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { type OpenFile, openFile } from '../kernel/open-file.ts';
import { checkTrust, InboxError, type Trust } from './trust.ts';

/** An open directory: it stays the same one when names above it are renamed or linked. */
export interface OpenDirectory extends OpenFile {
  /** Without links, for programs that take a path, and for messages. */
  readonly path: string;
}

/** The kernel's limit for one path (`MAXSYMLINKS`). */
export const linksMax = 40;

const openFlags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/** The path of an entry of an open directory. Node has no openat(2); /proc has the same effect. */
export function entryPath(fd: number, name: string): string {
  return `/proc/self/fd/${fd}/${name}`;
}

/** Opens a folder of an open directory. A link in its place is an error (`ELOOP` or `ENOTDIR`). */
export function openFolder(fd: number, name: string): OpenFile & { readonly stats: BigIntStats } {
  const folder = openFile(entryPath(fd, name), openFlags);
  return { ...folder, stats: fstatSync(folder.fd, { bigint: true }) };
}

/**
 * Opens a directory by descending from the root, one name at a time, following links by hand: other users must not be able to replace any
 * folder or link on the path.
 * @param trust left out: owners and modes are not checked
 * @throws InboxError when one of them is not trusted; the error of the system when a name does not exist
 */
export function descend(path: string, trust: Trust | undefined): OpenDirectory {
  const directory = new DirectoryPath(trust);
  try {
    directory.restart();
    directory.go(resolve(path).split('/'));
    return directory.end();
  } catch (error) {
    directory.close();
    throw error;
  }
}

/**
 * Reads a file that only a trusted user can write, in folders where other users cannot replace it.
 * @param trust left out: every user's file is read
 * @param links how many links to such a file are followed; a link after them is an error (`ELOOP`)
 * @throws InboxError when it is not trusted, not a regular file or too large; the error of the system when it does not exist
 */
export function readTrusted(path: string, trust: Trust | undefined, bytesMax: number, links: number): Buffer {
  using folder = descend(dirname(path), trust);
  const entry = entryPath(folder.fd, basename(path));
  const named = lstatSync(entry, { bigint: true });
  if (links > 0 && named.isSymbolicLink()) {
    checkTrust(path, named, 'above', trust);
    return readTrusted(resolve(folder.path, readlinkSync(entry)), trust, bytesMax, links - 1);
  }
  using file = openFile(entry, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  const stats = fstatSync(file.fd, { bigint: true });
  checkTrust(path, stats, 'inside', trust);
  if (stats.isFile() && stats.size <= bytesMax) return readFileSync(file.fd);
  const why = `Cannot read ${path}: not a regular file, or larger than ${bytesMax} bytes`;
  throw new InboxError(why, 'Put a file there as /usr/share/doc/sluice describes it');
}

class DirectoryPath {
  readonly #trust: Trust | undefined;
  #fd = -1;
  #names: string[] = [];
  #links = 0;

  constructor(trust: Trust | undefined) {
    this.#trust = trust;
  }

  restart(): void {
    this.#enter(openSync('/', openFlags));
    this.#names = [];
  }

  go(names: readonly string[]): void {
    for (const name of names) {
      if (name === '' || name === '.') continue;
      if (name === '..') this.#up();
      else this.#down(name);
    }
  }

  #up(): void {
    this.#enter(openSync(entryPath(this.#fd, '..'), openFlags));
    this.#names.pop();
  }

  #down(name: string): void {
    const path = `${this.path === '/' ? '' : this.path}/${name}`;
    const stats = lstatSync(entryPath(this.#fd, name), { bigint: true });
    checkTrust(path, stats, 'above', this.#trust);
    if (stats.isSymbolicLink()) return this.#follow(path, name);
    if (!stats.isDirectory()) throw new InboxError(`Cannot read ${path}: not a directory`, 'Pass the bundle directory');
    const folder = openFolder(this.#fd, name);
    this.#enter(folder.fd);
    checkTrust(path, folder.stats, 'above', this.#trust);
    this.#names.push(name);
  }

  #follow(path: string, name: string): void {
    if (++this.#links > linksMax) {
      throw new InboxError(
        `Cannot read ${path}: more than ${linksMax} symbolic links on the path`,
        'Check for a loop of links',
      );
    }
    const target = readlinkSync(entryPath(this.#fd, name));
    if (target.startsWith('/')) this.restart();
    this.go(target.split('/'));
  }

  #enter(fd: number): void {
    this.close();
    this.#fd = fd;
  }

  get path(): string {
    return `/${this.#names.join('/')}`;
  }

  /** The directory that was reached. That of a bundle must not be shared, not even with the sticky bit: others could add files. */
  end(): OpenDirectory {
    const last = this.#trust?.isOfOneFile === true ? 'above' : 'inside';
    checkTrust(this.path, fstatSync(this.#fd, { bigint: true }), last, this.#trust);
    const fd = this.#fd;
    return { fd, path: this.path, [Symbol.dispose]: () => closeSync(fd) };
  }

  close(): void {
    if (this.#fd >= 0) closeSync(this.#fd);
    this.#fd = -1;
  }
}
