import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { runs } from '@sluice/testing';
import { Layered } from '../layered.ts';
import { PackedChains, repackChains } from '../packed.ts';
import { frontendLines, readFrontend } from './frontend.ts';
import { keepSlots } from './keep-slots.ts';
import { emptyNft, type NftState } from './state.ts';

const key = '10.96.0.10 . tcp . 80';
const plain = { isClusterIP: true, none: 'drop', ranges: [], local: [] } as const;
const linesOf = (endpoints: readonly string[]): readonly string[] => frontendLines({ ...plain, endpoints });
const stateOf = (endpoints: readonly string[]): NftState => ({
  settings: ['table 4 address'],
  frontends: new Map([[key, linesOf(endpoints)]]),
});
const kept = (state: NftState, active: NftState): readonly string[] =>
  readFrontend(key, keepSlots(state, active).frontends.get(key) ?? []).endpoints;

test.each([
  ['a new endpoint comes last', ['a', 'b'], ['c', 'a', 'b'], ['a', 'b', 'c']],
  ['a new one takes the place of one that left', ['a', 'b', 'c'], ['a', 'c', 'd'], ['a', 'd', 'c']],
  ['the last one fills a hole', ['a', 'b', 'c'], ['b', 'c'], ['c', 'b']],
  ['the last one leaves', ['a', 'b', 'c'], ['b', 'a'], ['a', 'b']],
  ['all leave', ['a', 'b'], [], []],
  ['all are replaced', ['a', 'b', 'c'], ['x', 'y'], ['x', 'y']],
  ['the first ones come', [], ['a', 'b'], ['a', 'b']],
])('%s', (_title, active, fresh, slots) => {
  expect(kept(stateOf(fresh), stateOf(active))).toEqual(slots);
});

test('keeps every endpoint once, and moves none without need', () => {
  const list = fc.uniqueArray(fc.integer({ min: 0, max: 30 }).map(String), { maxLength: 20 });
  fc.assert(
    fc.property(list, list, (active, fresh) => {
      const slots = kept(stateOf(fresh), stateOf(active));
      expect([...slots].toSorted()).toEqual([...fresh].toSorted());
      const moved = active.filter((one, at) => slots.includes(one) && slots[at] !== one);
      // Only endpoints beyond the new length can move: into holes before it.
      expect(moved.every((one) => active.indexOf(one) >= slots.length)).toBe(true);
    }),
    runs(1000),
  );
});

test('equal frontends keep the identity of the active lines', () => {
  const active = stateOf(['a', 'b']);
  const fresh = stateOf(['b', 'a']);
  expect(keepSlots(fresh, active).frontends.get(key)).toBe(active.frontends.get(key));
  expect(keepSlots(fresh, active).settings).toBe(active.settings);
});

test('frontends that are gone are gone', () => {
  const next = keepSlots({ settings: ['table 4 address'], frontends: new Map() }, stateOf(['a']));
  expect([next.frontends.size, [...next.frontends.keys()]]).toEqual([0, []]);
});

test('the places of a state do not depend on which state they were first made for', () => {
  const list = fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 4 });
  const change = fc.dictionary(fc.constantFrom('1', '2', '3'), fc.option(list, { nil: undefined }));
  fc.assert(
    fc.property(fc.array(change, { maxLength: 10 }), (changes) => {
      let frontends = Layered.of<readonly string[]>(new Map());
      let [active, other] = [emptyNft, emptyNft];
      for (const own of changes) {
        const lines = Object.entries(own).map(([name, ends]) => [name, ends && linesOf(ends)] as const);
        frontends = frontends.with(lines);
        active = keepSlots({ settings: [], frontends }, active);
        other = keepSlots({ settings: [], frontends }, { settings: [], frontends: new Map(other.frontends) });
        expect(new Map(active.frontends)).toEqual(new Map(other.frontends));
        expect([...active.frontends.keys()].toSorted()).toEqual([...frontends.keys()].toSorted());
      }
    }),
    runs(300),
  );
});

test('a frontend that changed does not keep the block in memory that its old lines were in', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const [blocks, perBlock] = [128, 64];
  const keyAt = (n: number): string => `10.96.${n >> 8}.${n & 255} . tcp . 80`;
  const listAt = (n: number, last: string): string[] => [
    ...[1, 2, 3, 4].map((one) => `10.${one}.${n >> 8}.${n & 255} . 8080`),
    `${last} . 8080`,
  ];
  const all = Array.from({ length: blocks * perBlock }, (_, n) => [keyAt(n), linesOf(listAt(n, '10.5.0.1'))] as const);
  const active = { settings: [], frontends: Layered.of(PackedChains.of(new Map(all))) };
  const changed = Array.from({ length: blocks }, (_, n) => n * perBlock);
  const fresh = active.frontends.with(changed.map((n) => [keyAt(n), linesOf(listAt(n, '10.6.0.1'))]));
  const used = async (): Promise<number> => {
    // A weak reference holds its target until the end of the turn in which it was made.
    await new Promise(setImmediate);
    repackChains();
    collect();
    return process.memoryUsage().heapUsed;
  };
  const before = await used();
  const next = keepSlots({ settings: [], frontends: fresh }, active);
  const grown = (await used()) - before;
  expect(readFrontend(keyAt(0), next.frontends.get(keyAt(0)) ?? []).endpoints).toEqual(listAt(0, '10.6.0.1'));
  // A block has some 12 kB: of all of them 1.5 MB.
  expect(grown).toBeLessThan(600_000);
});
