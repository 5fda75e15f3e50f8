import { mkdirSync } from 'node:fs';
import { type Accepted, fileDigest, type Floor, isSerial } from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import * as v from 'valibot';
import { readIfThere, replaceFile, writing } from '../state/files.ts';

const digestForm = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/));
const serialForm = v.pipe(
  v.number(),
  v.check((value) => isSerial(value)),
);
const schema = v.strictObject({
  schema: v.literal(1),
  cluster: v.string(),
  serial: serialForm,
  digest: digestForm,
  revision: v.optional(serialForm),
  signers: v.array(v.string()),
  /** In files written before `update` existed: then no older release of this serial is accepted, with any signature. */
  onlyEndpoints: v.optional(v.literal(true)),
  expires: v.optional(v.string()),
  opened: v.optional(v.literal(true)),
  /** The last release that was signed by endpoint keys only; serial and cluster are those above. */
  update: v.optional(
    v.strictObject({
      revision: serialForm,
      digest: digestForm,
      signers: v.array(v.string()),
      expires: v.optional(v.string()),
    }),
  ),
});
type StoredFloor = v.InferOutput<typeof schema>;

/**
 * The last release that this node accepted, and the last endpoint update of it; a file in the state directory, beside the journal. Neither
 * ever decreases. The file has a copy with its digest, which is written first: a damaged file costs nothing.
 */
export class ReleaseFloor {
  readonly #directory: string;

  constructor(state: string) {
    this.#directory = state;
  }

  get #path(): string {
    return `${this.#directory}/release.json`;
  }

  /** @returns undefined before the first release, or `NODE_STATE_INVALID`: guessing here could accept an old release as new */
  read(): Floor | undefined | { readonly problem: Problem } {
    const record = this.#record();
    return record === undefined || 'problem' in record ? record : floorOf(record);
  }

  #record(): StoredFloor | undefined | { readonly problem: Problem } {
    const copy = this.#copy();
    try {
      const text = readIfThere(this.#path);
      const record = text === undefined ? undefined : v.parse(schema, JSON.parse(text));
      return copy === undefined || (record && isBeyond(record, copy)) ? record : copy;
    } catch (error) {
      if (copy) return copy;
      const message = `Cannot read the last accepted release: ${this.#path} is damaged (${error instanceof Error ? error.message : String(error)})`;
      const hint = `Set \`signatures.floor\` in sluiced.yaml to the newest serial that this node ran, then remove the file and \`release.json.copy\`. The rules stay as they are`;
      return { problem: refusal('NODE_STATE_INVALID', message, hint) };
    }
  }

  get #copyPath(): string {
    return `${this.#path}.copy`;
  }

  /** @returns undefined where it is not whole: the file counts then */
  #copy(): StoredFloor | undefined {
    try {
      const [digest, text = ''] = (readIfThere(this.#copyPath) ?? '').split('\n', 2);
      return fileDigest(text) === digest ? v.parse(schema, JSON.parse(text)) : undefined;
    } catch {
      return undefined;
    }
  }

  #write(record: StoredFloor): void {
    const text = JSON.stringify(record);
    replaceFile(this.#copyPath, `${fileDigest(text)}\n${text}\n`);
    replaceFile(this.#path, `${text}\n`);
  }

  /** Whether the wave of this node was open for the last accepted release, if its `SHA256SUMS` has this digest. */
  isOpened(digest: string): boolean {
    const record = this.#record();
    return record !== undefined && !('problem' in record) && record.digest === digest && record.opened === true;
  }

  /**
   * Remembers that the wave of this node is open for the last accepted release, or was closed again.
   * @throws StateError when the disk takes no write
   */
  open(digest: string, isOpen = true): void {
    const record = this.#record();
    if (record === undefined || 'problem' in record || record.digest !== digest) return;
    if (isOpen === (record.opened === true)) return;
    const { opened: _opened, ...rest } = record;
    this.#write(isOpen ? { ...rest, opened: true } : rest);
  }

  /**
   * Remembers a release, or an endpoint update of it. When it returns, it is on the disk.
   * @throws StateError when the disk takes no write: then the release is not accepted
   */
  write(accepted: Accepted): void {
    writing(this.#directory, () => mkdirSync(this.#directory, { recursive: true, mode: 0o700 }));
    const record = this.#record();
    const before = record === undefined || 'problem' in record ? undefined : record;
    this.#write(raised(before, accepted));
  }
}

/**
 * Whether a file is that of an older `sluiced`, which wrote no copy, after the copy. A damaged byte changes a number or a digest; a newer
 * record has others of both.
 */
function isBeyond(record: StoredFloor, copy: StoredFloor): boolean {
  const { update } = record;
  const isLater = record.serial > copy.serial || (record.revision ?? 0) > (copy.revision ?? 0);
  if (record.digest !== copy.digest) return isLater;
  return (
    update !== undefined && update.digest !== copy.update?.digest && update.revision > (copy.update?.revision ?? 0)
  );
}

function floorOf({
  schema: _schema,
  opened: _opened,
  update,
  revision,
  onlyEndpoints,
  expires,
  ...rest
}: StoredFloor): Floor {
  const release = {
    ...rest,
    ...(revision === undefined ? {} : { revision }),
    ...(onlyEndpoints ? { onlyEndpoints } : {}),
    ...(expires === undefined ? {} : { expires }),
  };
  if (update === undefined) return { release };
  const { expires: until, ...more } = update;
  const { cluster, serial } = rest;
  return {
    release,
    update: { cluster, serial, ...more, onlyEndpoints: true, ...(until === undefined ? {} : { expires: until }) },
  };
}

/** An endpoint update keeps the record of the release; a release keeps a newer update of it. */
function raised(before: StoredFloor | undefined, accepted: Accepted): StoredFloor {
  const { cluster: _cluster, serial, onlyEndpoints, revision, ...rest } = accepted;
  if (before && onlyEndpoints && revision !== undefined)
    return { ...before, update: { revision, ...rest, signers: [...rest.signers] } };
  const update = before?.serial === serial ? before.update : undefined;
  const isNewer = update !== undefined && update.revision > (revision ?? 0);
  return { schema: 1, ...accepted, signers: [...accepted.signers], ...(isNewer ? { update } : {}) };
}
