import fc from 'fast-check';
import { afterEach, expect, test } from 'vitest';
import { Layered } from './layered.ts';
import { repackChains, PackedChains } from './packed.ts';

afterEach(repackChains);

const named = (name: string, count: number): readonly string[] =>
  Array.from({ length: count }, (_, at) => `-A ${name} -s 10.0.0.${at}/32 -j RETURN`);
const chainsOf = (count: number): Map<string, readonly string[]> =>
  new Map(Array.from({ length: count }, (_, at) => [`C${at}`, named(`C${at}`, at % 7)] as const));

test.each([
  ['no chain', 0],
  ['one chain without a rule', 1],
  ['as many as are packed together', 64],
  ['one more', 65],
  ['many', 1000],
])('%s: chains read back in their order', (_title, count) => {
  const chains = chainsOf(count);
  const packed = PackedChains.of(chains);
  repackChains();
  expect([...packed]).toEqual([...chains]);
  expect([...packed.keys()]).toEqual([...chains.keys()]);
  expect([...packed.values()]).toEqual([...chains.values()]);
  expect(packed.size).toBe(count);
  expect([packed.get('absent'), packed.has('absent'), packed.place('absent')]).toEqual([undefined, false, undefined]);
});

test('characters outside ASCII read back', () => {
  const rules = ['-A A -m comment --comment "über 東京" -j RETURN'];
  const packed = PackedChains.of(new Map([['A', rules]]));
  repackChains();
  expect(packed.get('A')).toEqual(rules);
});

test('a chain keeps its identity until chains are repacked, and reads back equal', () => {
  const chains = chainsOf(100);
  const packed = PackedChains.of(chains);
  expect(packed.get('C99')).toBe(chains.get('C99'));
  repackChains();
  const read = packed.get('C99');
  expect(read).not.toBe(chains.get('C99'));
  expect(packed.get('C99')).toBe(read);
});

const change = fc.tuple(fc.nat(150), fc.option(fc.nat(6), { nil: undefined }));

test('after random changes it and all earlier ones equal plain maps with the same changes', () => {
  fc.assert(
    fc.property(fc.array(fc.array(change, { maxLength: 40 }), { maxLength: 12 }), (rounds) => {
      let map = chainsOf(100);
      let packed = PackedChains.of(map);
      const history = [[map, packed] as const];
      for (const round of rounds) {
        const changes = new Map(
          round.map(([at, count]) => [`C${at}`, count === undefined ? count : named('X', count)]),
        );
        map = new Map(map);
        for (const [name, rules] of changes) {
          if (rules) map.set(name, rules);
          else map.delete(name);
        }
        packed = packed.with(changes);
        history.push([map, packed]);
        repackChains();
      }
      for (const [plain, one] of history) expect([...one]).toEqual([...plain]);
    }),
  );
});

test('chains that are replaced a hundred times do not accumulate', () => {
  let packed = PackedChains.of(chainsOf(5_000));
  for (let round = 0; round < 100; round++) {
    const changes = Array.from({ length: 400 }, (_, at) => [`C${(round * 397 + at) % 5_000}`, named('X', 3)] as const);
    packed = packed.with(new Map(changes));
  }
  const blocks = new Set([...packed.keys()].map((name) => packed.place(name)?.block));
  expect(packed.size).toBe(5_000);
  expect(blocks.size).toBeLessThan((5_000 / 64) * 2);
});

test('a layered map above packed chains packs its differences when they accumulate', () => {
  const chains = chainsOf(2_000);
  const changes = Array.from({ length: 600 }, (_, at) => [`N${at}`, named('N', 2)] as const);
  const next = Layered.of(PackedChains.of(chains)).with(changes);
  expect(next.flat).toBeInstanceOf(PackedChains);
  expect([...next]).toEqual([...chains, ...changes]);
});
