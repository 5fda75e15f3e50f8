import fc from 'fast-check';
import { runs } from '@sluice/testing';
import { expect, test } from 'vitest';
import { findChange } from './search.ts';

/** A history: a letter for each place, `?` where nothing can be said. */
function search(history: string) {
  const asked: number[] = [];
  const ends = { start: history[0]!, end: history.at(-1)! };
  const change = findChange<string>(history.length - 1, ends, (at) => {
    asked.push(at);
    return history[at] === '?' ? { skip: 'why' } : { key: history[at]! };
  });
  return { ...change, asked };
}

test.each([
  ['ab', { before: 0, after: 1, between: [] }],
  ['aab', { before: 1, after: 2, asked: [1] }],
  ['a?b', { before: 0, after: 2, between: [1], skipped: [{ at: 1, why: 'why' }] }],
  ['aa?bb', { before: 1, after: 3, between: [2] }],
  ['acb', { before: 1, after: 2, others: ['c'] }],
  ['aaaa?????b', { before: 3, after: 9, between: [4, 5, 6, 7, 8] }],
] as const)('%s', (history, expected) => {
  expect(search(history)).toMatchObject(expected);
});

test('asks about 10 of 1,000 places, wherever the change is', () => {
  for (let at = 1; at < 1_000; at += 7)
    expect(search('a'.repeat(at) + 'b'.repeat(1_000 - at))).toMatchObject({ after: at, between: [] });
  expect(
    Math.max(...[1, 500, 999].map((at) => search('a'.repeat(at) + 'b'.repeat(1_000 - at)).asked.length)),
  ).toBeLessThanOrEqual(10);
});

test('ends where nothing can be said about anything', () => {
  const { asked, between } = search(`a${'?'.repeat(5_000)}b`);
  expect(asked.length).toBeLessThan(100);
  expect(between).toHaveLength(5_000);
});

test('leaves a stretch about which nothing can be said, wherever it is', () => {
  for (const at of [10, 3_000, 9_000]) {
    const { before, after, asked } = search(`${'a'.repeat(at)}${'?'.repeat(700)}${'b'.repeat(10_000 - at)}`);
    expect(before).toBeGreaterThan(at - 30);
    expect(after).toBeLessThan(at + 730);
    expect(asked.length).toBeLessThan(300);
  }
});

test('a change is there, and what is between was asked and not answered', () => {
  const letters = fc.array(fc.constantFrom('a', 'a', 'b', 'c', '?'), { maxLength: 40 });
  fc.assert(
    fc.property(letters, (inner) => {
      const history = `a${inner.join('')}b`;
      const { before, after, between, asked } = search(history);
      expect(history[before]).not.toBe('b');
      expect(history[before]).not.toBe('?');
      expect(history[after]).toBe('b');
      expect(between.map((at) => history[at])).toEqual(between.map(() => '?'));
      expect(new Set(asked).size).toBe(asked.length);
    }),
    runs(500),
  );
});
