import { hash } from 'node:crypto';
import { open, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { blobFile, type LayoutReference } from '@sluice/transport/content/layout.ts';
import { serveLimits } from './limits.ts';

/** A blob in memory, or its open file and size in bytes. */
export type Blob = { readonly bytes: Buffer } | { readonly file: FileHandle; readonly size: number };

/**
 * The blobs of a layout. All nodes ask for the few of a change within a second: small ones stay in memory, those that were asked for last.
 * One whose bytes are not those of its digest does not stay: its file may be mended.
 */
export class Blobs {
  readonly #layout: LayoutReference;
  /** The one that was asked for longest ago first. */
  readonly #kept = new Map<string, Buffer>();
  #keptBytes = 0;
  readonly #reading = new Map<string, Promise<Buffer | undefined>>();

  constructor(layout: LayoutReference) {
    this.#layout = layout;
  }

  /**
   * @param digest `sha256:` and 64 hex digits
   * @returns undefined where there is none; the caller closes a file
   * @throws an error of the file system
   */
  async get(digest: string): Promise<Blob | undefined> {
    const bytes = this.#kept.get(digest) ?? (await this.#read(digest));
    if (bytes) {
      this.#keep(digest, bytes);
      return { bytes };
    }
    const file = await this.#open(digest);
    return file && { file, size: (await file.stat()).size };
  }

  /** Those who ask for a blob while it is read wait for the one reading. @returns undefined for one that does not stay in memory */
  async #read(digest: string): Promise<Buffer | undefined> {
    const reading = this.#reading.get(digest) ?? this.#readSmall(digest);
    this.#reading.set(digest, reading);
    try {
      return await reading;
    } finally {
      this.#reading.delete(digest);
    }
  }

  async #readSmall(digest: string): Promise<Buffer | undefined> {
    await using file = await this.#open(digest);
    if (!file || (await file.stat()).size > serveLimits.keptBlobBytesMax) return undefined;
    const bytes = await file.readFile();
    return digestOf(bytes) === digest ? bytes : undefined;
  }

  #open(digest: string): Promise<FileHandle | undefined> {
    return open(join(this.#layout.dir, blobFile(digest)), 'r').catch(missing);
  }

  #keep(digest: string, bytes: Buffer): void {
    if (!this.#kept.delete(digest)) this.#keptBytes += bytes.length;
    this.#kept.set(digest, bytes);
    for (const [oldest, its] of this.#kept) {
      if (this.#keptBytes <= serveLimits.keptBytesMax) return;
      this.#kept.delete(oldest);
      this.#keptBytes -= its.length;
    }
  }
}

const digestOf = (bytes: Buffer): string => `sha256:${hash('sha256', bytes, 'hex')}`;

/** @throws the error, unless there is no such file */
function missing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
  return undefined;
}
