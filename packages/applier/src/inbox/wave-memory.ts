import { releaseLimits } from '@sluice/bundle';
import * as v from 'valibot';
import { StateFile } from '../state/state-file.ts';

const schema = v.strictObject({
  schema: v.literal(1),
  release: v.string(),
  /** How often waves of the release were closed: an opening from before does not count. */
  closings: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(releaseLimits.closingsMax)),
  /** The node runs the release, or a part of it: no closing takes it away. */
  taken: v.boolean(),
});
type KnownWaves = Pick<v.InferOutput<typeof schema>, 'closings' | 'taken'>;

/**
 * What a node knows of the waves of the last release: `waves.json` in the state directory, beside `release.json`, because an older `sluiced`
 * refuses that file with further keys. A damaged one counts as missing: then an opening from before a closing may count again.
 */
export class WaveMemory {
  readonly #path: string;

  constructor(state: string) {
    this.#path = `${state}/waves.json`;
  }

  /** @param digest of `SHA256SUMS`; nothing is known of other releases */
  of(digest: string): KnownWaves {
    // Read each time: the gate and the end of a change both write it.
    const known = new StateFile(this.#path, schema).read();
    return known?.release === digest ? known : { closings: 0, taken: false };
  }

  /** @throws StateError when the disk takes no write */
  write(digest: string, { closings, taken }: KnownWaves): void {
    new StateFile(this.#path, schema).write({ schema: 1, release: digest, closings, taken });
  }

  /** The node has taken a release. @throws StateError when the disk takes no write */
  take(digest: string): void {
    const known = this.of(digest);
    if (!known.taken) this.write(digest, { ...known, taken: true });
  }
}
