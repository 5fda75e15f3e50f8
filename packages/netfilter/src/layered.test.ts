import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { differing, Layered } from './layered.ts';

/** Printed by fast-check when a property fails. */

const changes = fc.array(
  fc.tuple(fc.integer({ min: 0, max: 1500 }).map(String), fc.option(fc.nat(3), { nil: undefined })),
  {
    maxLength: 300,
  },
);

test('after random changes it and all earlier maps equal plain maps with the same changes', () => {
  fc.assert(
    fc.property(fc.array(changes, { maxLength: 8 }), (steps) => {
      const plain = new Map<string, number>(Array.from({ length: 1200 }, (_, key) => [String(key), 9]));
      let newest = Layered.of<number>(new Map(plain));
      const versions: [Layered<number>, ReadonlyMap<string, number>][] = [[newest, new Map(plain)]];
      for (const step of steps) {
        for (const [key, value] of step) {
          if (value === undefined) plain.delete(key);
          else plain.set(key, value);
        }
        newest = newest.with(step);
        if (step.length % 3 === 0) newest.keepAs((map) => new Map(map));
        versions.push([newest, new Map(plain)]);
      }
      for (const [layered, map] of versions) {
        expect(layered.size).toBe(map.size);
        expect(Object.fromEntries(layered)).toEqual(Object.fromEntries(map));
        const visited: [string, number][] = [];
        layered.forEach((value, key) => visited.push([key, value]));
        expect([visited, [...layered.keys()]]).toEqual([[...layered], [...layered].map(([key]) => key)]);
        for (const key of ['3', '1400', 'none'])
          expect([layered.get(key), layered.has(key)]).toEqual([map.get(key), map.has(key)]);
      }
      for (const [a, plainA] of versions)
        for (const [b, plainB] of versions) {
          const found = differing(a, b);
          expect(new Set(found).size).toBe(found.length);
          expect(found.toSorted()).toEqual([...differing(plainA, plainB)].toSorted());
        }
    }),
    { ...runs(15), endOnFailure: true },
  );
});

test('changes without effect return the same map', () => {
  const map = Layered.of(new Map([['a', 1]])).with([['b', 2]]);
  expect(
    map.with([
      ['a', 1],
      ['c', undefined],
    ]),
  ).toBe(map);
});

test('a long series of small changes rarely visits all entries', () => {
  const map = new Map(Array.from({ length: 20_000 }, (_, key) => [String(key), 0] as const));
  let visits = 0;
  const counting = new Proxy(map, {
    get: (target, key) => {
      visits++;
      const value: unknown = Reflect.get(target, key);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
  let layered = Layered.of<number>(counting);
  for (let n = 1; n <= 300; n++) {
    const next = layered.with([[String(n), n]]);
    expect(differing(layered, next)).toEqual([String(n)]);
    layered = next;
  }
  expect(visits).toBeLessThan(300 * 1_000);
});
