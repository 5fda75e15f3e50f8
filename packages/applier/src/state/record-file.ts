import { limits } from '../limits.ts';
import { writing } from './files.ts';
import { fitted, shortened } from './keep.ts';
import type { OpenedJournal } from './opened.ts';
import type { HistoryEntry, NodeRecord } from './record.ts';
import { keepDamaged } from './remains.ts';
import { allocateSlots, slotBytes, writeSlot } from './slots.ts';

/** The record of a node in its file of two slots. */
export class RecordFile {
  readonly #path: string;
  readonly #now: () => Date;
  /** The record as this process knows it; `save` writes it. */
  record: NodeRecord;
  /** Why the file, though it was written, cannot be read. It is not overwritten before `replace`. */
  lost: string | undefined;
  #sequence: number;

  constructor(path: string, { record, sequence, lost }: OpenedJournal, now: () => Date) {
    this.#path = path;
    this.#now = now;
    this.record = record;
    this.#sequence = sequence;
    this.lost = lost;
  }

  /** Durable when it returns. @throws StateError when the disk takes no write */
  save(record: NodeRecord): void {
    if (this.lost !== undefined) throw new Error(`the journal is lost: ${this.lost}`);
    const { saved, text } = fitted(record, slotBytes - 256);
    // After a failed write the next one goes to the same slot: the other slot has the newest whole record.
    writing(this.#path, () => writeSlot(this.#path, this.#sequence + 1, text));
    this.#sequence += 1;
    this.record = saved;
  }

  /** Keeps the damaged file under another name, and makes room for a new one. */
  replace(): void {
    keepDamaged(this.#path);
    writing(this.#path, () => allocateSlots(this.#path, true));
  }

  /** The history with one more entry. */
  historyWith(entry: Omit<HistoryEntry, 'at'>): HistoryEntry[] {
    const because = entry.because === undefined ? {} : { because: shortened(entry.because) };
    return [...this.record.history, { at: this.time, ...entry, ...because }].slice(-limits.historyEntriesMax);
  }

  /** Now, as the record writes it. */
  get time(): string {
    return this.#now().toISOString();
  }

  get nowMs(): number {
    return this.#now().getTime();
  }
}
