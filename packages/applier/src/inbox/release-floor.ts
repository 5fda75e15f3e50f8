import { mkdirSync } from 'node:fs';
import { type Accepted, isSerial, type Problem } from '@sluice/bundle';
import * as v from 'valibot';
import { readIfThere, writeDurably, writing } from '../store/files.ts';

const digest = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/));
const schema = v.strictObject({
  schema: v.literal(1),
  cluster: v.string(),
  serial: v.pipe(
    v.number(),
    v.check((value) => isSerial(value)),
  ),
  digest,
  signers: v.array(v.string()),
  expires: v.optional(v.string()),
});

/** Which release this node has accepted last; a file in the state directory, beside the journal. Its serial never goes down. */
export class ReleaseFloor {
  readonly #directory: string;

  constructor(state: string) {
    this.#directory = state;
  }

  get #path(): string {
    return `${this.#directory}/release.json`;
  }

  /** @returns undefined before the first release, or `NODE_STATE_INVALID`: who guesses here takes an old release for a new one */
  read(): Accepted | undefined | { readonly problem: Problem } {
    try {
      const text = readIfThere(this.#path);
      if (text === undefined) return undefined;
      const { schema: _schema, expires, ...rest } = v.parse(schema, JSON.parse(text));
      return expires === undefined ? rest : { ...rest, expires };
    } catch (error) {
      const message = `Cannot read which release was accepted last: ${this.#path} is damaged (${error instanceof Error ? error.message : String(error)})`;
      const hint = `Set \`signatures.floor\` in sluiced.yaml to the newest serial that this node ran, then remove the file. The rules stay as they are`;
      return { problem: { code: 'NODE_STATE_INVALID', level: 'error', message, hint } };
    }
  }

  /**
   * Remembers a release. When it returns, it is on the disk.
   * @throws StateError when the disk does not take it: then the release is not accepted
   */
  write(accepted: Accepted): void {
    writing(this.#directory, () => mkdirSync(this.#directory, { recursive: true, mode: 0o700 }));
    writeDurably(this.#path, `${JSON.stringify({ schema: 1, ...accepted })}\n`);
  }
}
