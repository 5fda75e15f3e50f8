import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { TextSource } from '@sluice/bundle';
import { limits } from '../limits.ts';

/** Files of a bundle have some kilobytes. A higher level saves no more of these. */
const compression = { level: 1, memLevel: 4, windowBits: 12 } as const;

/**
 * A text of which a fifth of its size is kept. Files of a bundle are read once, when they changed, and kept so that whoever needs one
 * later has what was hashed, whatever became of it on the disk: 29 MB of 10,000 Services are 6 MB so. A large one is kept as it is: what
 * others put there must not cost time.
 */
export class PackedText implements TextSource {
  readonly key: string;
  readonly isAtHand: boolean;
  /** The text, or its packed bytes, one character for each. */
  readonly #kept: string;

  /** @param digest of the bytes */
  constructor(bytes: Buffer, digest: string) {
    this.key = digest;
    this.isAtHand = bytes.length > limits.packedBytesMax;
    this.#kept = this.isAtHand ? bytes.toString('utf8') : deflateRawSync(bytes, compression).toString('latin1');
  }

  /** Made anew each time, but for a large one. */
  get text(): string {
    return this.isAtHand ? this.#kept : inflateRawSync(Buffer.from(this.#kept, 'latin1')).toString('utf8');
  }
}
