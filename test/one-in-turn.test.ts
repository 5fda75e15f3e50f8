import { expect, test } from 'vitest';
import { oneInTurn } from './one-in-turn.ts';

test('all landings, those of even and those of odd numbers have each of several in turn', () => {
  const numbers = Array.from({ length: 8 }, (_, n) => n);
  for (const count of [1, 2, 3, 4]) {
    const all = numbers.slice(0, count);
    const seen = (landings: readonly number[]): ReadonlySet<number> =>
      new Set(landings.flatMap((landing) => oneInTurn(all, 'boot', 'test', landing)));
    for (const landings of [numbers, numbers.map((n) => 2 * n), numbers.map((n) => 2 * n + 1)])
      expect(seen(landings)).toEqual(new Set(all));
    expect(oneInTurn(all, 'boot', 'test', 30)).toHaveLength(1);
    expect(oneInTurn(all, 'boot', 'all', 30)).toEqual(all);
  }
  expect(
    new Set(['boot', 'drift', 'probation'].flatMap((name) => oneInTurn(['a', 'b', 'c'], name, 'test', 30))),
  ).toEqual(new Set(['a', 'b', 'c']));
});
