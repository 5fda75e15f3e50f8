import {
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { allocateSlots, readSlots, slotBytes, writeSlot } from './slots.ts';

let directory: string;
let path: string;
beforeEach(() => {
  directory = mkdtempSync(`${tmpdir()}/sluiced-slots-`);
  path = `${directory}/journal`;
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** Overwrites a part of the file. */
function scribble(at: number, bytes: Uint8Array): void {
  const fd = openSync(path, 'r+');
  writeSync(fd, bytes, 0, bytes.length, at);
  closeSync(fd);
}

const slotOf = (sequence: number): number => (sequence % 2) * slotBytes;

test('counts slots that the disk cannot read as damaged', () => {
  // A directory opens like a file, and no read of it succeeds.
  expect(readSlots(directory, () => undefined)).toEqual({ kind: 'damaged' });
});

test('retries slots that cannot be read at first', () => {
  allocateSlots(path);
  for (const sequence of [1, 2]) writeSlot(path, sequence, `record ${sequence}`);
  renameSync(path, `${directory}/aside`);
  // Its first pages are nobody's: every read of them fails with EIO, as that of a bad sector.
  symlinkSync('/proc/self/mem', path);
  const mend = (): void => renameSync(`${directory}/aside`, path);
  expect(readSlots(path, mend)).toEqual({ kind: 'record', sequence: 2, text: 'record 2' });
});

test('does not mistake a file that cannot be checked for a missing one', () => {
  // No name is that long, so nobody can say that it is not there.
  const nowhere = `${directory}/${'x'.repeat(300)}`;
  expect(readSlots(nowhere, () => undefined)).toEqual({ kind: 'damaged' });
  expect(() => allocateSlots(nowhere)).toThrow('ENAMETOOLONG');
});

test('tells a missing and a preallocated file, and reads otherwise the newest record', () => {
  expect(readSlots(path)).toEqual({ kind: 'missing' });
  allocateSlots(path);
  expect(readSlots(path)).toEqual({ kind: 'fresh' });
  for (const sequence of [1, 2, 3]) writeSlot(path, sequence, `record ${sequence} ä`);
  expect(readSlots(path)).toEqual({ kind: 'record', sequence: 3, text: 'record 3 ä' });
});

test.each([
  ['its first line', 0, 'x'],
  ['its number', 'sluice-journal 1 '.length, '9'],
  ['its text', 120, '\0\0'],
])('falls back to the other slot when %s is damaged', (_title, offset, bytes) => {
  allocateSlots(path);
  writeSlot(path, 1, 'old'.repeat(100));
  writeSlot(path, 2, 'new'.repeat(100));
  scribble(slotOf(2) + offset, Buffer.from(bytes));
  expect(readSlots(path)).toEqual({ kind: 'record', sequence: 1, text: 'old'.repeat(100) });
});

test('reports two damaged slots, not a fresh file', () => {
  allocateSlots(path);
  for (const sequence of [1, 2]) writeSlot(path, sequence, 'old');
  for (const sequence of [1, 2]) scribble(slotOf(sequence), Buffer.from('y'));
  expect(readSlots(path)).toEqual({ kind: 'damaged' });
});

/** The content after a write of the first record of which some sectors did not reach the disk: before, from, or without each of them. */
function tornFirst(): readonly Buffer[] {
  const before = readFileSync(path);
  writeSlot(path, 1, 'first'.repeat(500));
  const after = readFileSync(path);
  const sectors = Array.from({ length: 5 }, (_, sector) => slotOf(1) + sector * 512);
  return sectors.flatMap((at) => [
    Buffer.concat([after.subarray(0, at), before.subarray(at)]),
    Buffer.concat([before.subarray(0, at + 512), after.subarray(at + 512)]),
    Buffer.concat([after.subarray(0, at), before.subarray(at, at + 512), after.subarray(at + 512)]),
  ]);
}

test('reads a file as fresh whose first record is torn', () => {
  allocateSlots(path);
  for (const torn of tornFirst()) {
    writeFileSync(path, torn);
    expect(readSlots(path)).toEqual({ kind: 'fresh' });
  }
});

test('reads the replacement of a lost file as damaged until its first record is whole', () => {
  allocateSlots(path, true);
  expect(readSlots(path)).toEqual({ kind: 'damaged' });
  for (const torn of tornFirst()) {
    writeFileSync(path, torn);
    expect(readSlots(path)).toEqual({ kind: 'damaged' });
  }
  writeSlot(path, 1, 'first');
  expect(readSlots(path)).toEqual({ kind: 'record', sequence: 1, text: 'first' });
});

test('reads the old or the new record, whatever part of a write reaches the disk', { timeout: 60_000 }, () => {
  const piece = fc.record({ from: fc.nat(400), to: fc.nat(400), old: fc.string(), fresh: fc.string() });
  fc.assert(
    fc.property(piece, ({ from, to, old, fresh }) => {
      rmSync(path, { force: true });
      allocateSlots(path);
      writeSlot(path, 1, 'first');
      writeSlot(path, 2, old);
      const before = readFileSync(path);
      writeSlot(path, 3, fresh);
      const after = readFileSync(path);
      const mixed = Buffer.from(before);
      const [start, end] = [slotOf(3) + Math.min(from, to), slotOf(3) + Math.max(from, to)];
      after.copy(mixed, start, start, end);
      writeFileSync(path, mixed);
      const read = readSlots(path);
      expect(read.kind === 'record' && [old, fresh].includes(read.text) && read.sequence >= 2).toBe(true);
    }),
    runs(200),
  );
});

test('never throws, whatever bytes a slot has', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 600 }), fc.nat(2 * slotBytes), (bytes, length) => {
      writeFileSync(path, bytes);
      if (length < bytes.length) truncateSync(path, length);
      expect(['record', 'fresh', 'damaged']).toContain(readSlots(path).kind);
    }),
    runs(500),
  );
});
