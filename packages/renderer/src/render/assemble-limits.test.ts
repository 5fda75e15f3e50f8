import { expect, test } from 'vitest';
import { sizeProblems, slotProblems } from './assemble-limits.ts';
import { endpoint, portWith, serviceOf } from './compile/sample.fixture.ts';

const mebibyte = 1024 * 1024;
const lines = (bytes: number): string => `${'x'.repeat(63)}\n`.repeat(bytes / 64);
const files = (count: number, text: string): [string, string][] =>
  Array.from({ length: count }, (_, n): [string, string] => [`file-${n}`, text]);

test.each<[string, [string, string][], string[]]>([
  ['a file of 8 MiB', files(1, lines(8 * mebibyte)), []],
  [
    'a larger file',
    files(1, `${lines(8 * mebibyte)}\n`),
    ['Cannot write file-0: it would have 8388609 bytes, more than 8388608; nodes refuse it'],
  ],
  ['a line of 64 KiB', files(1, `${'x'.repeat(65_536)}\n`), []],
  [
    'a longer line',
    files(1, `short\n${'x'.repeat(65_537)}\n`),
    ['Cannot write file-0: one of its lines would be longer than 65536 bytes; nodes refuse it'],
  ],
  ['200,000 files', files(200_000, ''), []],
  [
    'more files',
    files(200_001, ''),
    ['Cannot write the bundle: it would have 200001 files, more than 200000; nodes refuse it'],
  ],
  ['512 MiB in all', files(64, lines(8 * mebibyte)), []],
  [
    'more in all',
    [...files(64, lines(8 * mebibyte)), ['last', '\n']],
    ['Cannot write the bundle: it would have 536870913 bytes, more than 536870912; nodes refuse it'],
  ],
])('%s', (_title, given, expected) => {
  expect(sizeProblems(given).map((problem) => problem.message)).toEqual(expected);
});

test.each([
  [32_768, []],
  [
    32_769,
    [
      'Service shop/cart: Cannot write Service shop/cart: it has 32769 endpoints, and mode nftables takes at most 32768 for each port; nodes refuse it',
    ],
  ],
])('a Service with %i endpoints in mode nftables', (count, expected) => {
  const endpoints = Array.from({ length: count }, () => endpoint('10.244.1.5:80'));
  const found = slotProblems([serviceOf([portWith({ endpoints })])]);
  expect(found.map(({ object, message }) => `${object}: ${message}`)).toEqual(expected);
});
