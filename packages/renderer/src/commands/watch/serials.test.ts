import { expect, test } from 'vitest';
import { ClusterFailure } from '../../cluster/failure.ts';
import { nextBlock, serialsOfLease } from './serials.ts';

test.each([
  ['the first release of all', undefined, 0, { next: 1, last: 1000, isNewest: true }],
  ['a directory from before the Lease', undefined, 41, { next: 42, last: 1041, isNewest: true }],
  ['the own block', 1000, 41, { next: 42, last: 1000, isNewest: true }],
  ['the end of the own block', 1000, 1000, { next: 1001, last: 2000, isNewest: true }],
  ['the block of another process', 2000, 41, { next: 2001, last: 3000, isNewest: false }],
  ['the block of another process, without a release of its own', 1000, 0, { next: 1001, last: 2000, isNewest: false }],
  ['the last serial of the block before', 2000, 1000, { next: 2001, last: 3000, isNewest: false }],
  ['a greater serial, pushed by hand', 1000, 5000, { next: 5001, last: 6000, isNewest: true }],
])('serials after %s', (_title, noted, newest, expected) => {
  expect(nextBlock(noted, newest)).toEqual(expected);
});

test('no serial is used twice, whichever process publishes', () => {
  const newest = new Map([
    ['a', 0],
    ['b', 0],
    ['c', 0],
  ]);
  const used: number[] = [];
  let noted: number | undefined;
  for (let turn = 0; turn < 400; turn++) {
    const who = ['a', 'b', 'c'][(turn * 7 + (turn >> 3)) % 3] ?? 'a';
    const block = nextBlock(noted, newest.get(who) ?? 0);
    noted = block.last;
    for (let n = 0; n < (turn % 5) * 300 && block.next + n <= block.last; n++) {
      used.push(block.next + n);
      newest.set(who, block.next + n);
    }
  }
  expect(new Set(used).size).toBe(used.length);
  expect(used).toEqual(used.toSorted((a, b) => a - b));
  expect(used.length).toBeGreaterThan(10_000);
});

const leaseWith = (note: string) => ({ note: async (replace: (note: string) => string) => replace(note) });

test('a Lease notes the end of the block', async () => {
  const notes: string[] = [];
  const lease = { note: async (replace: (note: string) => string) => (notes.push(replace('2000')), notes.at(-1)) };
  expect(await serialsOfLease(lease, 'a/b')(5)).toEqual({ next: 2001, last: 3000, isNewest: false });
  expect(notes).toEqual(['3000']);
});

test.each([
  ['of another process', { note: async () => undefined }, 'another process holds Lease a/b, or has changed it'],
  ['with another note', leaseWith('x'), 'the last serial in the annotations of Lease a/b is not a number: "x"'],
  [
    'that cannot be read',
    { note: () => Promise.reject(new ClusterFailure('CLUSTER_UNREACHABLE', 'Cannot read it', 'Wait')) },
    'Cannot read it',
  ],
])('there are no serials with a Lease %s', async (_title, lease, why) => {
  expect(await serialsOfLease(lease, 'a/b')(5)).toBe(why);
});
