import { expect, test } from 'vitest';
import { limits } from '../limits.ts';
import { readIfWhole, readPatiently } from './files.ts';
import { StateError } from './state-error.ts';

/** A read that fails some times, and counts how often it was made and waited for. */
function failing(code: string, times: number) {
  const counts = { reads: 0, pauses: 0 };
  const read = (): string | undefined =>
    readPatiently(
      '/state/journal',
      () => {
        counts.reads += 1;
        if (counts.reads <= times) throw Object.assign(new Error(`${code}: it failed`), { code });
        return 'rules';
      },
      () => void (counts.pauses += 1),
    );
  return { read, counts };
}

test.each(['EIO', 'EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN', 'EUCLEAN'])(
  'what fails with %s in passing is read',
  (code) => {
    const { read, counts } = failing(code, limits.readAttemptsMax - 1);
    expect(read()).toBe('rules');
    expect(counts).toEqual({ reads: limits.readAttemptsMax, pauses: limits.readAttemptsMax - 1 });
  },
);

test.each(['EIO', 'EUCLEAN', 'EBADMSG', 'ENODATA'])('what the disk never gives back (%s) is damaged', (code) => {
  const { read, counts } = failing(code, Infinity);
  expect(read()).toBeUndefined();
  expect(counts.reads).toBe(limits.readAttemptsMax);
});

test.each(['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN'])('a process without means (%s) says nothing of the disk', (code) => {
  const { read, counts } = failing(code, Infinity);
  expect(read).toThrow(StateError);
  expect(read).toThrow('/state/journal cannot be read: ' + code);
  expect(counts.reads).toBe(2 * limits.readAttemptsMax);
});

test.each(['EACCES', 'EPERM'])('nobody waits for rights (%s)', (code) => {
  const { read, counts } = failing(code, Infinity);
  expect(read).toThrow(StateError);
  expect(counts).toEqual({ reads: 1, pauses: 0 });
});

test('nobody waits for a file that is not there', () => {
  const pauses: string[] = [];
  expect(readIfWhole('/nowhere/at/all', () => void pauses.push('one'))).toBeUndefined();
  expect(pauses).toEqual([]);
});

test('a mistake of the program is no damage', () => {
  const broken = (): never => {
    throw new TypeError('it is not a function');
  };
  expect(() => readPatiently('/state/journal', broken)).toThrow(TypeError);
});
