import { expect, test } from 'vitest';
import { sortShort } from './sort-short.ts';

const byFirst = (a: string, b: string): number => a.charCodeAt(0) - b.charCodeAt(0);

test('keeps a sorted list, and sorts another one without changing it', () => {
  const [sorted, other] = [
    ['a', 'b2', 'b1', 'c'],
    ['b2', 'a', 'b1'],
  ];
  expect(sortShort(sorted, byFirst)).toBe(sorted);
  expect(sortShort(other, byFirst)).toEqual(['a', 'b2', 'b1']);
  expect(other).toEqual(['b2', 'a', 'b1']);
  expect(sortShort([], byFirst)).toEqual([]);
});
