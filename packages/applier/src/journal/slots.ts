import { hash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readSync, renameSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { isThere, type Pause, readPatiently, syncDirectory } from '../store/files.ts';

/**
 * Two slots of fixed size in one file that is as large as it will ever be. A write goes to the slot that does not hold the newest
 * record, so the newest one stays whole whatever happens to the write; it needs no free space on the disk. The first line of a slot
 * holds the number, the length and the SHA-256 of what follows: a slot that was torn, or lost by the disk, is not read.
 *
 * `sluice-journal 1 <sequence> <bytes> <digest>`
 */
export const slotBytes = 128 * 1024;
const slots = 2;
const magic = 'sluice-journal 1';

/** What the file holds. */
export type SlotsRead =
  | { readonly kind: 'fresh' }
  | { readonly kind: 'record'; readonly sequence: number; readonly text: string; readonly torn: boolean }
  /** Neither slot is whole. */
  | { readonly kind: 'damaged' };

/**
 * Reads the newest whole record. A file that is not there, or was never written to, is fresh. A slot that the disk does not give back
 * is like one that was torn: the other one counts.
 * @param pause between two attempts to read
 * @throws StateError when it cannot be read now, and nobody knows
 */
export function readSlots(path: string, pause?: Pause): SlotsRead {
  // What the disk does not tell is not `false`: a journal that is taken for a new one is lost.
  if (readPatiently(path, () => isThere(path), pause) === false) return { kind: 'fresh' };
  const texts = Array.from(
    { length: slots },
    (_, slot) => readPatiently(path, () => readSlot(path, slot), pause) ?? Buffer.alloc(0),
  );
  const whole = texts.flatMap((text) => readRecord(text) ?? []);
  const newest = whole.toSorted((a, b) => b.sequence - a.sequence)[0];
  // It was made in its full size: one that is shorter was cut.
  const isBlank = (text: Buffer): boolean => text.length === slotBytes && text.every((byte) => byte === 0);
  if (!newest) return { kind: texts.every(isBlank) ? 'fresh' : 'damaged' };
  const torn = texts.some((text) => !isBlank(text) && readRecord(text) === undefined);
  return { kind: 'record', ...newest, torn };
}

function readSlot(path: string, slot: number): Buffer {
  const fd = openSync(path, 'r');
  try {
    const buffer = Buffer.alloc(slotBytes);
    return buffer.subarray(0, readSync(fd, buffer, 0, slotBytes, slot * slotBytes));
  } finally {
    closeSync(fd);
  }
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

/** Of the number, too: a slot's first line alone must not make an old record new. */
function digestOf(sequence: string, body: Buffer): string {
  return hash('sha256', Buffer.concat([Buffer.from(`${sequence}\n`), body]), 'hex');
}

/**
 * Writes a record. When it returns, the record is on the disk.
 * @param sequence one more than that of the record before
 * @throws what the disk says; the record before stays readable
 */
export function writeSlot(path: string, sequence: number, text: string): void {
  const body = Buffer.from(text);
  const head = Buffer.from(`${magic} ${sequence} ${body.length} ${digestOf(String(sequence), body)}\n`);
  const slot = Buffer.concat([head, body]);
  if (slot.length > slotBytes) throw new RangeError(`a record of ${slot.length} bytes does not fit into a slot`);
  // A new descriptor each time: after a failed fsync the old one may call lost pages clean.
  const fd = openSync(path, 'r+');
  try {
    for (let at = 0; at < slot.length; )
      at += writeSync(fd, slot, at, slot.length - at, (sequence % slots) * slotBytes + at);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Makes the file in its full size, if it is not there: real blocks, not a hole that needs space later. */
export function allocateSlots(path: string): void {
  if (isThere(path)) return;
  const temporary = `${path}.tmp`;
  const fd = openSync(temporary, 'w', 0o600);
  try {
    for (let slot = 0; slot < slots; slot++) writeSync(fd, Buffer.alloc(slotBytes), 0, slotBytes, slot * slotBytes);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  renameSync(temporary, path);
  syncDirectory(dirname(path));
}
