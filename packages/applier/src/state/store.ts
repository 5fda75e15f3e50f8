import { mkdirSync, renameSync, rmSync } from 'node:fs';
import { compareText } from '@sluice/netfilter';
import { fileDigest } from '@sluice/bundle';
import { limits } from '../limits.ts';
import {
  discardParts,
  type Pause,
  readIfThere,
  readWithRetry,
  syncPath,
  wholeNames,
  writeSynced,
  writing,
} from './files.ts';

/** See `Store`. */
export interface Texts {
  put(texts: readonly string[], isSynced?: boolean): readonly string[];
  get(digest: string): string | undefined;
  /** Whether a digest is on the disk, as far as is known without reading it. */
  has(digest: string): boolean;
}

/**
 * Texts by their digest. What two generations share is stored once, and a text that does not match its name is not read. An object appears
 * under its name when it is whole, and on the disk unless it waits for `sync`.
 */
export class Store implements Texts {
  readonly #directory: string;
  /** Digests that are known to be there. */
  readonly #known = new Set<string>();
  /** Those of them that may not be on the disk yet. */
  readonly #unsynced = new Set<string>();
  readonly #pause: Pause | undefined;
  /** Whether the last read succeeded. On a broken disk, waiting for each of thousands of texts would take too long. */
  #answers = true;

  /**
   * @param pause between two attempts to read
   * @param isShared another process may write to it: nothing is created or discarded
   */
  constructor(directory: string, pause?: Pause, isShared = false) {
    this.#directory = directory;
    this.#pause = pause;
    if (!isShared) {
      writing(directory, () => mkdirSync(directory, { recursive: true, mode: 0o700 }));
      discardParts(directory, pause);
    }
    for (const name of wholeNames(directory, pause)) this.#known.add(name);
  }

  /**
   * Stores texts. When it returns, all of them are on the disk, unless they are to wait for `sync`.
   * @returns their digests in the same order
   */
  put(texts: readonly string[], isSynced = true): readonly string[] {
    if (isSynced) this.sync();
    let isNew = false;
    const digests = texts.map((text) => {
      const digest = fileDigest(text);
      if (!this.#known.has(digest)) {
        const path = this.#pathOf(digest);
        writing(path, () => {
          writeSynced(`${path}.tmp`, text, isSynced);
          renameSync(`${path}.tmp`, path);
        });
        this.#known.add(digest);
        if (!isSynced) this.#unsynced.add(digest);
        isNew = true;
      }
      return digest;
    });
    if (isNew && isSynced) writing(this.#directory, () => syncPath(this.#directory));
    return digests;
  }

  /**
   * Waits until texts that were stored without waiting are on the disk.
   * @throws StateError when the disk does not take them; then they are stored anew when they are needed again
   */
  sync(): void {
    if (this.#unsynced.size === 0) return;
    const digests = [...this.#unsynced];
    this.#unsynced.clear();
    try {
      writing(this.#directory, () => this.#syncAll(digests));
    } catch (error) {
      // After a failed sync the kernel takes lost pages for clean: a second one would succeed.
      for (const digest of digests) this.#known.delete(digest);
      throw error;
    }
  }

  /** Waits for texts that an earlier process may have stored without waiting. Those that are not there are passed over. */
  syncAgain(digests: readonly string[]): void {
    for (const digest of digests) if (this.#known.has(digest)) this.#unsynced.add(digest);
    this.sync();
  }

  #syncAll(digests: readonly string[]): void {
    for (const digest of digests) syncPath(this.#pathOf(digest));
    syncPath(this.#directory);
  }

  #pathOf(digest: string): string {
    return `${this.#directory}/${digest}`;
  }

  /**
   * @returns the text of a digest; undefined when it is missing or damaged
   * @throws StateError when it cannot be read now
   */
  get(digest: string): string | undefined {
    const text = /^[0-9a-f]{64}$/.test(digest) ? this.#read(digest) : undefined;
    if (text !== undefined && fileDigest(text) === digest) return text;
    // So that it is written again when it is stored again.
    this.#known.delete(digest);
    return undefined;
  }

  #read(digest: string): string | undefined {
    const path = `${this.#directory}/${digest}`;
    const attempts = this.#answers ? limits.readAttemptsMax : 1;
    const text = readWithRetry(path, () => readIfThere(path) ?? null, this.#pause, attempts);
    this.#answers = text !== undefined;
    return text ?? undefined;
  }

  has(digest: string): boolean {
    return this.#known.has(digest);
  }

  /** The stored digests, sorted. */
  get digests(): readonly string[] {
    return [...this.#known].toSorted(compareText);
  }

  /** Removes everything except some digests. */
  sweep(kept: ReadonlySet<string>): void {
    for (const digest of this.#known) {
      if (kept.has(digest)) continue;
      rmSync(this.#pathOf(digest), { force: true });
      this.#known.delete(digest);
      this.#unsynced.delete(digest);
    }
  }
}
