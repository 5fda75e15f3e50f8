import { expect, test } from 'vitest';
import { perKey, perObject } from './per-object.ts';

test('computes once per object, also where the result is undefined', () => {
  let calls = 0;
  const of = perObject((owner: { readonly n: number }) => (calls++, owner.n > 1 ? owner.n : undefined));
  const [one, two] = [{ n: 1 }, { n: 2 }];
  expect([of(one), of(two), of(one), of({ n: 1 })]).toEqual([undefined, 2, undefined, undefined]);
  expect(calls).toBe(3);
});

test('computes once per object and key, and again after a failure', () => {
  const of = perKey<object, string>();
  const [a, b] = [{}, {}];
  expect(() =>
    of(a, 'x', () => {
      throw new Error('no');
    }),
  ).toThrow('no');
  expect([of(a, 'x', () => 'ax'), of(a, 'x', () => 'other'), of(a, 'y', () => 'ay'), of(b, 'x', () => 'bx')]).toEqual([
    'ax',
    'ax',
    'ay',
    'bx',
  ]);
});
