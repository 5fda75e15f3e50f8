import { randomUUID } from 'node:crypto';
import { lstatSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileDigest } from '@sluice/bundle';
import { isDigest } from '../registry/reference.ts';

/** Manifests and blobs in a directory, by their digests. What was changed there is not found. */
export class BlobCache {
  readonly #dir: string;

  /** @param dir made when the first one is put there; it has no other files */
  constructor(dir: string) {
    this.#dir = dir;
  }

  /**
   * @param digest `sha256:…`
   * @param bytesMax a larger file is not read
   * @returns the bytes with this digest; undefined where there are none
   * @throws errors of the file system
   */
  get(digest: string, bytesMax: number): Buffer | undefined {
    const path = this.#path(digest);
    const stats = lstatSync(path, { throwIfNoEntry: false });
    if (stats === undefined || !stats.isFile() || stats.size > bytesMax) return undefined;
    const bytes = readFileSync(path);
    return `sha256:${fileDigest(bytes)}` === digest ? bytes : undefined;
  }

  /**
   * Stores bytes under their digest: the whole file, or none.
   * @throws errors of the file system
   */
  put(digest: string, bytes: Uint8Array): void {
    mkdirSync(this.#dir, { recursive: true, mode: 0o755 });
    const temporary = join(this.#dir, `${randomUUID()}.tmp`);
    try {
      writeFileSync(temporary, bytes, { flag: 'wx' });
      renameSync(temporary, this.#path(digest));
    } catch (error) {
      rmSync(temporary, { force: true });
      throw error;
    }
  }

  /**
   * Removes everything else, also what an interrupted write left.
   * @param keep digests
   * @throws errors of the file system
   */
  prune(keep: ReadonlySet<string>): void {
    const names = new Set([...keep].map((digest) => this.#name(digest)));
    let found: readonly string[] = [];
    try {
      found = readdirSync(this.#dir);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
    for (const name of found) if (!names.has(name)) rmSync(join(this.#dir, name), { recursive: true, force: true });
  }

  #path(digest: string): string {
    return join(this.#dir, this.#name(digest));
  }

  #name(digest: string): string {
    if (!isDigest(digest)) throw new RangeError(`${String(digest)} is not a digest`);
    return digest.slice('sha256:'.length);
  }
}
