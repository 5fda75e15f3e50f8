import { mkdirSync } from 'node:fs';
import { discardPartialFiles, finishPublication, syncPath, writing } from './files.ts';
import { checkReadable, lostError, readJournal } from './peek.ts';
import { emptyRecord, type NodeRecord, withSchema } from './record.ts';
import { keepDamaged } from './remains.ts';
import { allocateSlots, slotBytes, writeSlot } from './slots.ts';
import { StateError } from './state-error.ts';

/** Our files in a state directory, which may be shared with other programs. */
const ownFiles: ReadonlySet<string> = new Set([
  'journal',
  'current',
  'decision.json',
  'declined.json',
  'generations.json',
  'networks.json',
  'repairs.json',
  'health.json',
  'release.json',
  'release.json.copy',
  'damage.json',
  'receipts.json',
]);

/** How a state directory is opened. */
export interface OpenOptions {
  /** false: both slots may be damaged, or the file may be missing. */
  readonly whole: boolean;
  /** Another process may be running: nothing is created or discarded. */
  readonly isShared: boolean;
}

/** The record of a node in its file of two slots. */
export class RecordFile {
  readonly #path: string;
  readonly #now: () => Date;
  /** The record as this process knows it; `save` writes it. */
  record: NodeRecord;
  /** Why the file, though it was written, cannot be read. It is not overwritten before `startAgain`. */
  lost: string | undefined;
  #sequence: number;
  #isDamagedKept = false;
  /** Makes what the last record names durable, before it is; undefined: all of it is. */
  #owed: (() => void) | undefined;

  /**
   * Opens, or creates, the journal of a state directory.
   * @throws StateError when it cannot be read, or belongs to another node
   */
  constructor(directory: string, node: string, now: () => Date, { whole, isShared }: OpenOptions) {
    this.#path = `${directory}/journal`;
    this.#now = now;
    if (!isShared) {
      writing(directory, () => mkdirSync(directory, { recursive: true, mode: 0o700 }));
      finishPublication(`${directory}/current`);
    }
    if (whole) checkReadable(directory);
    const { record = emptyRecord(node), sequence, lost } = readJournal(directory);
    if (whole && lost !== undefined) throw lostError(lost);
    if (record.node !== node) {
      const hint = 'Use another state directory, or the node name that this one was created for';
      throw new StateError('NODE_STATE_INVALID', `it belongs to node ${record.node}, not to ${node}`, hint);
    }
    this.record = record;
    this.#sequence = sequence;
    this.lost = lost;
    if (isShared || lost !== undefined) return;
    discardPartialFiles(directory, undefined, (name) => ownFiles.has(name));
    writing(this.#path, () => allocateSlots(this.#path));
  }

  /** Durable when it returns. @throws StateError when the disk takes no write */
  save(record: NodeRecord): void {
    this.settle();
    this.#write(record, true);
  }

  /**
   * The next process reads the record, but it is on the disk only when the next one is to be saved.
   * @param objects makes what it names durable, which precedes it
   * @throws StateError when the disk takes no write
   */
  saveSoon(record: NodeRecord, objects: () => void): void {
    this.settle();
    this.#write(record, false);
    this.#owed = objects;
  }

  /** Makes the last record durable. @throws StateError when the disk takes no write */
  settle(): void {
    const owed = this.#owed;
    if (owed === undefined) return;
    this.#owed = undefined;
    owed();
    writing(this.#path, () => syncPath(this.#path));
  }

  /** As `settle`, for the record of an earlier process, which may have ended between the beginning of an endpoint update and the disk. */
  settleAgain(objects: () => void): void {
    this.#owed = objects;
    try {
      this.settle();
    } catch {
      // The next write says so, and recovery needs none.
    }
  }

  #write(record: NodeRecord, isSynced: boolean): void {
    if (this.lost !== undefined) throw new Error(`the journal is lost: ${this.lost}`);
    const { saved, text } = fitted(withSchema(record), slotBytes - 256);
    // After a failed write the next one goes to the same slot: the other slot has the newest whole record.
    writing(this.#path, () => {
      // Removed while this process runs: it knows the record.
      allocateSlots(this.#path, true);
      writeSlot(this.#path, this.#sequence + 1, text, isSynced);
    });
    this.#sequence += 1;
    this.record = saved;
  }

  /**
   * Continues with a record that knows nothing of the one before. A lost file is kept under another name, and replaced.
   * @throws StateError when the disk takes no write; then nothing has changed
   */
  startAgain(record: NodeRecord): void {
    const { lost } = this;
    if (lost !== undefined) {
      // Once: after a failed write a second attempt finds the blank file of the first one.
      if (!this.#isDamagedKept) keepDamaged(this.#path);
      this.#isDamagedKept = true;
      writing(this.#path, () => allocateSlots(this.#path, true));
    }
    this.lost = undefined;
    try {
      this.save(record);
    } catch (error) {
      this.lost = lost;
      throw error;
    }
  }

  /** Now, as the record writes it. */
  get time(): string {
    return this.#now().toISOString();
  }

  get nowMs(): number {
    return this.#now().getTime();
  }
}

/** Drops the oldest history of a record that is too large for its slot. */
function fitted(record: NodeRecord, bytesMax: number): { readonly saved: NodeRecord; readonly text: string } {
  let saved = record;
  let text = JSON.stringify(saved);
  while (Buffer.byteLength(text) > bytesMax && saved.history.length > 0) {
    saved = { ...saved, history: saved.history.slice(Math.ceil(saved.history.length / 4)) };
    text = JSON.stringify(saved);
  }
  return { saved, text };
}
