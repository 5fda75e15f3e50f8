import { mkdirSync, renameSync, rmSync } from 'node:fs';
import { compareText } from '@sluice/netfilter';
import { fileDigest } from '@sluice/bundle';
import { limits } from '../limits.ts';
import {
  discardPartialFiles,
  isThere,
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

/** How a store is opened. */
export interface StoreOptions {
  /** Between two attempts to read. */
  readonly pause?: Pause | undefined;
  /** Another process may write to it: nothing is created, discarded or written again. */
  readonly isShared?: boolean;
  /** Second copies of the texts that are needed most. */
  readonly copies?: Store;
  /** Called with the path of each file that is damaged or missing. @param isMended a copy replaced it */
  readonly onDamage?: (path: string, isMended: boolean) => void;
}

/**
 * Texts by their digest. What two generations share is stored once, and a text that does not match its name is not read. An object appears
 * under its name when it is whole, and on the disk unless it waits for `sync`. A damaged file with a copy is written again from it.
 */
export class Store implements Texts {
  readonly #directory: string;
  /** Digests that are known to be there. */
  readonly #known = new Set<string>();
  /** Those of them that may not be on the disk yet. */
  readonly #unsynced = new Set<string>();
  readonly #options: StoreOptions;
  /** Whether the last read succeeded. On a broken disk, waiting for each of thousands of texts would take too long. */
  #answers = true;

  constructor(directory: string, options: StoreOptions = {}) {
    const { pause, isShared } = options;
    this.#directory = directory;
    this.#options = options;
    if (!isShared) {
      writing(directory, () => mkdirSync(directory, { recursive: true, mode: 0o700 }));
      discardPartialFiles(directory, pause);
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
        this.#write(digest, text, isSynced);
        if (!isSynced) this.#unsynced.add(digest);
        isNew = true;
      }
      return digest;
    });
    if (isNew && isSynced) writing(this.#directory, () => syncPath(this.#directory));
    return digests;
  }

  #write(digest: string, text: string, isSynced: boolean): void {
    const path = this.#pathOf(digest);
    writing(path, () => {
      writeSynced(`${path}.tmp`, text, isSynced);
      renameSync(`${path}.tmp`, path);
    });
    this.#known.add(digest);
  }

  /**
   * Waits until texts that were stored without waiting are on the disk.
   * @throws StateError when the disk does not take them; then they are stored again when they are needed
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
    if (!/^[0-9a-f]{64}$/.test(digest)) return undefined;
    const text = this.#read(digest);
    if (text !== undefined && fileDigest(text) === digest) return text;
    const wasKnown = this.#known.has(digest);
    // So that it is written again when it is stored again.
    this.#known.delete(digest);
    const copy = this.#options.copies?.get(digest);
    if (copy === undefined && !wasKnown) return undefined;
    this.#options.onDamage?.(this.#pathOf(digest), copy !== undefined && this.#mend(digest, copy));
    return copy;
  }

  /** @returns whether the disk took it */
  #mend(digest: string, text: string): boolean {
    if (this.#options.isShared) return false;
    try {
      this.#write(digest, text, true);
      return true;
    } catch {
      return false;
    }
  }

  /**
   * Keeps copies of texts, and of these alone.
   * @throws StateError when the disk does not take one, or a text cannot be read now
   */
  copy(digests: readonly string[]): void {
    const { copies } = this.#options;
    for (const digest of digests) {
      const text = copies?.has(digest) === false ? this.get(digest) : undefined;
      // Not synced: a copy that a power cut tears is written again.
      if (text !== undefined) copies?.put([text], false);
    }
    copies?.sweep(new Set(digests));
  }

  /**
   * Reads texts again, with their copies: those that are damaged are written again.
   * @returns whether the store has all of them
   * @throws StateError as `copy`
   */
  check(digests: readonly string[]): boolean {
    const { copies, onDamage } = this.#options;
    const damaged = digests.filter(
      (digest) => copies?.get(digest) === undefined && copies && isThere(copies.#pathOf(digest)),
    );
    const isWhole = digests.filter((digest) => this.get(digest) === undefined).length === 0;
    this.copy(digests);
    for (const digest of damaged) if (copies && copies.has(digest)) onDamage?.(copies.#pathOf(digest), true);
    return isWhole;
  }

  #read(digest: string): string | undefined {
    const path = `${this.#directory}/${digest}`;
    const attempts = this.#answers ? limits.readAttemptsMax : 1;
    const text = readWithRetry(path, () => readIfThere(path) ?? null, this.#options.pause, attempts);
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
