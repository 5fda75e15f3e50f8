import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { runs } from '@sluice/testing';
import { Layered } from '../layered.ts';
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
])('%s', (_title, active, updated, slots) => {
  expect(kept(stateOf(updated), stateOf(active))).toEqual(slots);
});

test('keeps every endpoint once, and moves none without need', () => {
  const list = fc.uniqueArray(fc.integer({ min: 0, max: 30 }).map(String), { maxLength: 20 });
  fc.assert(
    fc.property(list, list, (active, updated) => {
      const slots = kept(stateOf(updated), stateOf(active));
      expect([...slots].toSorted()).toEqual([...updated].toSorted());
      const moved = active.filter((one, at) => slots.includes(one) && slots[at] !== one);
      // Only endpoints beyond the new length can move: into holes before it.
      expect(moved.every((one) => active.indexOf(one) >= slots.length)).toBe(true);
    }),
    runs(1000),
  );
});

test('equal frontends keep the identity of the active lines', () => {
  const active = stateOf(['a', 'b']);
  const updated = stateOf(['b', 'a']);
  expect(keepSlots(updated, active).frontends.get(key)).toBe(active.frontends.get(key));
  expect(keepSlots(updated, active).settings).toBe(active.settings);
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
