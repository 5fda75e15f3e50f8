import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { reasonOf } from './reason.ts';

const failing = (path: string): unknown => {
  try {
    return readFileSync(path);
  } catch (error) {
    return error;
  }
};

test.each([
  ['a missing file', failing('/nowhere/at/all'), 'no such file or directory'],
  ['a directory', failing('/'), 'it is a directory, not a file'],
  [
    'an entry of an open directory',
    failing('/proc/self/fd/0/web.iptables'),
    'web.iptables: a part of the path is not a directory',
  ],
  ['another error', new Error('unexpected end of file'), 'unexpected end of file'],
])('%s has a reason in words', (_title, error, reason) => {
  expect(reasonOf(error)).toBe(reason);
});
