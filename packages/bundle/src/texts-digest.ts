import { createHash, type Hash } from 'node:crypto';

/** Texts are hashed in this many segments, with a checkpoint after each. */
const segments = 16;

/** The hash of the texts before an index. */
interface HashCheckpoint {
  readonly at: number;
  readonly hash: Hash;
}

/**
 * SHA-256 of concatenated texts, for repeated use while few of them change: texts before the first changed one are not hashed again.
 * Hashing the megabyte of 10,000 files takes 4 ms, so on average half of that.
 */
export class TextsDigest {
  #texts: readonly string[] = [];
  #checkpoints: readonly HashCheckpoint[] = [];

  /** @returns lower-case hex */
  of(texts: readonly string[]): string {
    const same = commonPrefixLength(this.#texts, texts);
    const checkpoints = this.#checkpoints.filter(({ at }) => at <= same);
    const last = checkpoints.at(-1);
    const hash = last === undefined ? createHash('sha256') : last.hash.copy();
    const step = Math.max(1, Math.ceil(texts.length / segments));
    for (let at = last?.at ?? 0; at < texts.length; at += step) {
      const end = Math.min(at + step, texts.length);
      hash.update(texts.slice(at, end).join(''));
      checkpoints.push({ at: end, hash: hash.copy() });
    }
    this.#texts = texts;
    this.#checkpoints = checkpoints;
    return hash.digest('hex');
  }
}

/** The number of equal texts at the start of two lists. */
function commonPrefixLength(a: readonly string[], b: readonly string[]): number {
  let at = 0;
  while (at < a.length && at < b.length && a[at] === b[at]) at++;
  return at;
}
