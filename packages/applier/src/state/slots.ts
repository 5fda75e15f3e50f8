import { hash } from 'node:crypto';
import { fsyncSync, readSync, renameSync } from 'node:fs';
import { dirname } from 'node:path';
import { openFile } from '../kernel/open-file.ts';
import { writeAll } from '../kernel/whole-text.ts';
import { isThere, type Pause, readWithRetry, syncPath } from './files.ts';

/**
 * Two slots of fixed size in one preallocated file. A write goes to the slot without the newest record, so the newest one stays whole if
 * the write fails; a write needs no free disk space. The first line of a slot has the number, the length and the SHA-256 of the rest: a
 * torn or lost slot is not read.
 *
 * `sluice-journal 1 <sequence> <bytes> <digest>`
 */
export const slotBytes = 128 * 1024;
const slots = 2;
const magic = 'sluice-journal 1';
/** In the first slot until the second record. */
const replacementMark = 'sluice-journal lost\n';

/** The content of the file. */
type SlotsRead =
  | { readonly kind: 'missing' }
  | { readonly kind: 'fresh' }
  | { readonly kind: 'record'; readonly sequence: number; readonly text: string }
  /** Neither slot is whole. */
  | { readonly kind: 'damaged' };

/**
 * Reads the newest whole record. A slot that the disk cannot read counts as torn: the other one is used. A never written file is fresh,
 * also where the write of its first record was torn: the second record, which precedes the first rule, goes to the first slot.
 * @param pause between two attempts to read
 * @throws StateError when it cannot be read now
 */
export function readSlots(path: string, pause?: Pause): SlotsRead {
  // A read error is not `false`: a journal that is mistaken for a new one is lost.
  if (readWithRetry(path, () => isThere(path), pause) === false) return { kind: 'missing' };
  const texts = Array.from(
    { length: slots },
    (_, slot) => readWithRetry(path, () => readSlot(path, slot), pause) ?? Buffer.alloc(0),
  );
  const whole = texts.flatMap((text) => readRecord(text) ?? []);
  const newest = whole.toSorted((a, b) => b.sequence - a.sequence)[0];
  if (newest) return { kind: 'record', ...newest };
  // The file is created in full size: a shorter one was truncated.
  const isBlank = texts.every(({ length }) => length === slotBytes) && texts[0]?.every((byte) => byte === 0);
  return { kind: isBlank ? 'fresh' : 'damaged' };
}

function readSlot(path: string, slot: number): Buffer {
  using file = openFile(path, 'r');
  const buffer = Buffer.alloc(slotBytes);
  return buffer.subarray(0, readSync(file.fd, buffer, 0, slotBytes, slot * slotBytes));
}

function readRecord(slot: Buffer): { readonly sequence: number; readonly text: string } | undefined {
  const end = slot.indexOf(10);
  if (end < 0 || end > 200) return undefined;
  const [, sequence, bytes, digest] =
    /^sluice-journal 1 (\d{1,15}) (\d{1,9}) ([0-9a-f]{64})$/.exec(slot.toString('latin1', 0, end)) ?? [];
  const body = slot.subarray(end + 1, end + 1 + Number(bytes));
  if (sequence === undefined || body.length !== Number(bytes)) return undefined;
  if (digestOf(sequence, body) !== digest) return undefined;
  return { sequence: Number(sequence), text: body.toString('utf8') };
}

/** Includes the number: changing a slot's first line alone must not make an old record new. */
function digestOf(sequence: string, body: Buffer): string {
  return hash('sha256', Buffer.concat([Buffer.from(`${sequence}\n`), body]), 'hex');
}

/**
 * Writes a record. When it returns, the record is on the disk.
 * @param sequence one more than that of the record before
 * @param isSynced false: a next process reads the record, but it may not be on the disk. The file must be synced before the other slot,
 * which may have the only whole record, is written
 * @throws the error of the disk; the record before stays readable
 */
export function writeSlot(path: string, sequence: number, text: string, isSynced = true): void {
  const body = Buffer.from(text);
  const head = Buffer.from(`${magic} ${sequence} ${body.length} ${digestOf(String(sequence), body)}\n`);
  const slot = Buffer.concat([head, body]);
  if (slot.length > slotBytes) throw new RangeError(`a record of ${slot.length} bytes does not fit into a slot`);
  // A new descriptor each time: after a failed fsync the old one may report lost pages as clean.
  using file = openFile(path, 'r+');
  writeAll(file.fd, slot, (sequence % slots) * slotBytes);
  if (isSynced) fsyncSync(file.fd);
}

/**
 * Creates the file in full size if it does not exist: with allocated blocks, not a hole that needs space later.
 * @param isReplacement of a lost file: without a whole record it counts as damaged, not as fresh
 */
export function allocateSlots(path: string, isReplacement = false): void {
  if (isThere(path)) return;
  const temporary = `${path}.tmp`;
  {
    using file = openFile(temporary, 'w', 0o600);
    writeAll(file.fd, Buffer.alloc(slots * slotBytes), 0);
    if (isReplacement) writeAll(file.fd, replacementMark, 0);
    fsyncSync(file.fd);
  }
  renameSync(temporary, path);
  syncPath(dirname(path));
}
