import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runs } from '@sluice/testing';
import { Layered } from '../layered.ts';
import { RunningTotal } from './running-total.ts';

const rulesOf = (count: number): readonly string[] => Array.from({ length: count }, (_, at) => `rule ${at}`);

test('after random changes the total is that of all entries', () => {
  const change = fc.tuple(fc.constantFrom('a', 'b', 'c', 'd'), fc.option(fc.nat(5), { nil: undefined }));
  fc.assert(
    fc.property(fc.array(fc.array(change, { maxLength: 3 }), { maxLength: 8 }), (rounds) => {
      const total = new RunningTotal<readonly string[], number>({
        none: 0,
        of: (_key, rules) => rules.length,
        add: (a, b, sign) => a + sign * b,
      });
      let map = Layered.of<readonly string[]>(new Map([['a', rulesOf(3)]]));
      for (const round of rounds) {
        map = map.with(round.map(([key, count]) => [key, count === undefined ? undefined : rulesOf(count)] as const));
        expect(total.of(map)).toBe([...map.values()].reduce((sum, rules) => sum + rules.length, 0));
      }
    }),
    runs(200),
  );
});

test('reads only entries that differ from the last map', () => {
  const read: string[] = [];
  const total = new RunningTotal<readonly string[], number>({
    none: 0,
    of: (key, rules) => {
      read.push(key);
      return rules.length;
    },
    add: (a, b, sign) => a + sign * b,
  });
  const map = Layered.of(
    new Map([
      ['a', rulesOf(1)],
      ['b', rulesOf(2)],
    ]),
  );
  expect(total.of(map)).toBe(3);
  read.length = 0;
  expect(total.of(map.with([['b', rulesOf(7)]]))).toBe(8);
  expect(new Set(read)).toEqual(new Set(['b']));
});
