import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { randomOf, readSeed, replay, seed } from './random.ts';
import { atTier, inTurn, reaches, readTier, runs, tier } from './tier.ts';

describe('a value by tier', () => {
  const values = { quick: 1, all: 3 } as const;
  test.each([
    ['quick', 1],
    ['test', 1],
    ['all', 3],
    ['soak', 3],
  ] as const)('is in tier %s that of the next smaller one that has a value: %i', (at, value) => {
    expect(atTier<number>(values, at)).toBe(value);
  });

  test('may be zero', () => {
    expect(atTier({ quick: 5, test: 0 }, 'all')).toBe(0);
  });

  test('properties run a tenth as often in tier quick, at least once, and 30 times as often in a soak', () => {
    const counts = (['quick', 'test', 'all', 'soak'] as const).map((at) => [runs(1000, at), runs(4, at)]);
    expect(counts.map((pair) => pair.map(({ numRuns }) => numRuns))).toEqual([
      [100, 1],
      [1000, 4],
      [1000, 4],
      [30_000, 120],
    ]);
  });
});

test('as many landings as there are turns run everything once in tier test, and each landing all of it in a larger one', () => {
  const all = ['a', 'b', 'c', 'd'];
  expect([7, 8, 9].map((landing) => inTurn(all, 3, 'test', landing))).toEqual([['b'], ['c'], ['a', 'd']]);
  expect(inTurn(all, 3, 'all', 7)).toEqual(all);
});

test('a tier reaches itself and the smaller ones', () => {
  expect([reaches('test', 'quick'), reaches('test', 'test'), reaches('test', 'soak')]).toEqual([false, true, true]);
});

test.each(['', 'QUICK', 'fast'])('an unknown tier is refused: %j', (text) => {
  expect(() => readTier(text)).toThrow('is not a tier');
});

test.each(['', '-1', '1.5', '2147483648', '0x10', 'seed'])('an invalid seed is refused: %j', (text) => {
  expect(() => readSeed(text)).toThrow('is not a whole number');
});

test('a seed determines all numbers, which are from 0 to 1', () => {
  const draw = (from: number): readonly number[] => Array.from({ length: 100 }, randomOf(from));
  expect(draw(7)).toEqual(draw(7));
  expect(draw(7)).not.toEqual(draw(8));
  for (const number of draw(7)) expect(number >= 0 && number < 1).toBe(true);
});

test('a failing property uses the seed of the run and prints the command that replays it', () => {
  const fails = (): void => fc.assert(fc.property(fc.nat(), () => false));
  expect(fails).toThrow(`seed: ${seed}`);
  expect(fails).toThrow(`Replay: ${replay('packages/testing/src/testing.test.ts')}`);
  expect(replay('x')).toContain(`SLUICE_SEED=${seed} ./dev test${tier === 'test' ? '' : ` --${tier}`} x`);
});

test('a failing asynchronous property prints it, too', async () => {
  await expect(fc.assert(fc.asyncProperty(fc.nat(), async () => false))).rejects.toThrow('Replay: SLUICE_SEED=');
});
