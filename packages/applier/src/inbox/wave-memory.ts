import { mkdirSync } from 'node:fs';
import { releaseLimits } from '@sluice/bundle';
import * as v from 'valibot';
import { readIfThere, writeDurably, writing } from '../state/files.ts';

const schema = v.strictObject({
  schema: v.literal(1),
  release: v.string(),
  closings: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(releaseLimits.closingsMax)),
  taken: v.boolean(),
});

/** What a node knows of the waves of one release. */
interface KnownWaves {
  /** How often they were closed: an opening from before does not count. */
  readonly closings: number;
  /** The node runs the release, or a part of it: no closing takes it away. */
  readonly isTaken: boolean;
}

/**
 * The waves of the last release; `waves.json` in the state directory, beside `release.json`, because an older `sluiced` reads that file and
 * refuses keys that it does not know. A damaged file counts as missing: then an opening from before a closing may count again.
 */
export class WaveMemory {
  readonly #directory: string;

  constructor(state: string) {
    this.#directory = state;
  }

  get #path(): string {
    return `${this.#directory}/waves.json`;
  }

  /** @param digest of `SHA256SUMS`; nothing is known of other releases */
  of(digest: string): KnownWaves {
    try {
      const { release, closings, taken } = v.parse(schema, JSON.parse(readIfThere(this.#path) ?? ''));
      if (release === digest) return { closings, isTaken: taken };
    } catch {
      // Missing, or damaged.
    }
    return { closings: 0, isTaken: false };
  }

  /** @throws StateError when the disk takes no write */
  write(digest: string, { closings, isTaken }: KnownWaves): void {
    writing(this.#directory, () => mkdirSync(this.#directory, { recursive: true, mode: 0o700 }));
    const text = JSON.stringify({ schema: 1, release: digest, closings, taken: isTaken });
    writeDurably(this.#path, `${text}\n`);
  }

  /**
   * The node has taken a release: no closing of its wave takes it away.
   * @throws StateError when the disk takes no write
   */
  take(digest: string): void {
    const known = this.of(digest);
    if (!known.isTaken) this.write(digest, { ...known, isTaken: true });
  }
}
