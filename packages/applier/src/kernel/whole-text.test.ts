import { closeSync, fstatSync, readSync, writeSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { fill, openNameless, writeAll } from './whole-text.ts';

let fd: number;
beforeEach(() => {
  fd = openNameless();
});
afterEach(() => closeSync(fd));

const content = (): string => {
  const bytes = Buffer.alloc(fstatSync(fd).size);
  readSync(fd, bytes, 0, bytes.length, 0);
  return bytes.toString();
};

/** A disk that takes so many bytes of each write, and an error when it has so many of them. */
const disk = (each: number, room = Infinity) => ({
  writeSync: (to: number, bytes: Buffer, at: number, length: number, position: number | null): number => {
    const left = Math.min(each, length, room - (position ?? 0));
    if (left <= 0 && room !== Infinity) throw Object.assign(new Error('no space left'), { code: 'ENOSPC' });
    return left === 0 ? 0 : writeSync(to, bytes, at, left, position);
  },
});

test('writes all of a text in parts, if the disk takes only parts', () => {
  fill(fd, 'add rule é 1\nadd rule 2\n', disk(5));
  expect(content()).toBe('add rule é 1\nadd rule 2\n');
});

test('writes at the position of the file, and at another one', () => {
  writeAll(fd, 'abc', null, disk(2));
  writeAll(fd, 'def', null, disk(2));
  writeAll(fd, 'X', 1);
  expect(content()).toBe('aXcdef');
});

test('leaves nothing of a text that does not fit', () => {
  fill(fd, 'the text before, which is longer\n');
  expect(() => fill(fd, 'add rule 1\nadd rule 2\n', disk(100, 11))).toThrow('no space left');
  expect(content()).toBe('');
});

test('a disk that takes nothing and reports no error is an error', () => {
  expect(() => fill(fd, 'abc', disk(0))).toThrow('only 0 of 3 bytes');
});
