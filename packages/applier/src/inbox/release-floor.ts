import { mkdirSync } from 'node:fs';
import { type Accepted, isSerial, type Problem } from '@sluice/bundle';
import * as v from 'valibot';
import { readIfThere, writeDurably, writing } from '../store/files.ts';

const digestForm = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/));
const schema = v.strictObject({
  schema: v.literal(1),
  cluster: v.string(),
  serial: v.pipe(
    v.number(),
    v.check((value) => isSerial(value)),
  ),
  digest: digestForm,
  revision: v.optional(
    v.pipe(
      v.number(),
      v.check((value) => isSerial(value)),
    ),
  ),
  signers: v.array(v.string()),
  onlyEndpoints: v.optional(v.literal(true)),
  expires: v.optional(v.string()),
  opened: v.optional(v.literal(true)),
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
    const record = this.#record();
    if (record === undefined || 'problem' in record) return record;
    const { schema: _schema, opened: _opened, expires, revision, onlyEndpoints, ...rest } = record;
    return {
      ...rest,
      ...(revision === undefined ? {} : { revision }),
      ...(onlyEndpoints ? { onlyEndpoints } : {}),
      ...(expires === undefined ? {} : { expires }),
    };
  }

  #record(): v.InferOutput<typeof schema> | undefined | { readonly problem: Problem } {
    try {
      const text = readIfThere(this.#path);
      return text === undefined ? undefined : v.parse(schema, JSON.parse(text));
    } catch (error) {
      const message = `Cannot read which release was accepted last: ${this.#path} is damaged (${error instanceof Error ? error.message : String(error)})`;
      const hint = `Set \`signatures.floor\` in sluiced.yaml to the newest serial that this node ran, then remove the file. The rules stay as they are`;
      return { problem: { code: 'NODE_STATE_INVALID', level: 'error', message, hint } };
    }
  }

  /** Whether the wave of this node was open for the release that was accepted last, if its `SHA256SUMS` has this digest. */
  isOpened(digest: string): boolean {
    const record = this.#record();
    return record !== undefined && !('problem' in record) && record.digest === digest && record.opened === true;
  }

  /**
   * Remembers that the wave of this node is open for the release that was accepted last.
   * @throws StateError when the disk does not take it
   */
  open(digest: string): void {
    const accepted = this.read();
    if (accepted === undefined || 'problem' in accepted || accepted.digest !== digest) return;
    writeDurably(this.#path, `${JSON.stringify({ schema: 1, ...accepted, opened: true })}\n`);
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
