import { expect, test } from 'vitest';
import { pinchOf } from './gestures.ts';

test('fingers that part zoom by the ratio of their distances, around the middle between them', () => {
  expect(pinchOf({ x: 100, y: 100 }, { x: 200, y: 100 }, { x: 300, y: 100 })).toEqual([2, { x: 200, y: 100 }]);
});

test('fingers at one point zoom by a finite factor', () => {
  const [factor] = pinchOf({ x: 5, y: 5 }, { x: 5, y: 5 }, { x: 45, y: 5 });
  expect(factor).toBe(40);
});
