import { join } from 'node:path';
import { fileDigest } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import * as v from 'valibot';
import { readRecord, writeRecord } from './records.ts';

const schema = v.strictObject({
  schema: v.literal(1),
  source: v.string(),
  /** Digest of what the source had. */
  found: v.string(),
  /** `PlacedRelease.digest`. */
  placed: v.string(),
});

/** What the source had when its release was placed, or refused: it is not fetched again. */
export class FetchMemory {
  readonly #path: string;
  readonly #monotonicMs: () => number;
  readonly #againMs: number;
  #placed: v.InferOutput<typeof schema> | undefined;
  #refused: { readonly key: string; readonly problems: readonly Problem[]; readonly untilMs: number } | undefined;

  /**
   * Reads what the process before remembered. Without it, all is fetched again.
   * @param againMs how long a refusal counts: keys of signers may change
   */
  constructor(directory: string, monotonicMs: () => number, againMs: number) {
    this.#path = join(directory, 'fetched.json');
    this.#monotonicMs = monotonicMs;
    this.#againMs = againMs;
    this.#placed = readRecord(this.#path, schema);
  }

  /** @param digest of the files that are in place */
  isPlaced(source: string, found: string, digest: string): boolean {
    const { source: from, found: what, placed } = this.#placed ?? {};
    return from === source && what === fileDigest(found) && placed === digest;
  }

  /** Why what the source has was refused lately; undefined: it was not. */
  refusal(source: string, found: string): readonly Problem[] | undefined {
    const { key, problems, untilMs = 0 } = this.#refused ?? {};
    return key === `${source} ${found}` && this.#monotonicMs() < untilMs ? problems : undefined;
  }

  refuse(source: string, found: string, problems: readonly Problem[]): void {
    this.#refused = { key: `${source} ${found}`, problems, untilMs: this.#monotonicMs() + this.#againMs };
  }

  /** An operator asks: what was refused is tried again. */
  forgetRefusal(): void {
    this.#refused = undefined;
  }

  /** @throws the error of the file system */
  place(source: string, found: string, digest: string): void {
    this.#refused = undefined;
    this.#placed = { schema: 1, source, found: fileDigest(found), placed: digest };
    writeRecord(this.#path, this.#placed);
  }
}
