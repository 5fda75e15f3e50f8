import { expect, test } from 'vitest';
import { limits, paces } from './limits.ts';
import { Tidier } from './memory.ts';

/** A heap that can be grown, and a clock that a collection takes time of. */
function setUp(tookMs: number) {
  const state = { size: 50_000_000, live: 40_000_000, nowMs: 0, collections: 0 };
  const heap = {
    size: () => state.size,
    settle: () => undefined,
    collect: () => {
      state.collections += 1;
      state.nowMs += tookMs;
      state.size = state.live;
    },
  };
  return { state, tidier: new Tidier(heap, () => state.nowMs) };
}

test('returns memory once when idle', () => {
  const { state, tidier } = setUp(1);
  tidier.idle();
  state.nowMs += paces.collection.leastMs + 1;
  tidier.idle();
  expect(state).toMatchObject({ collections: 1, size: 40_000_000 });
});

test('returns much memory, not a little', () => {
  const { state, tidier } = setUp(1);
  tidier.idle();
  state.nowMs += paces.collection.leastMs + 1;
  state.size = state.live + limits.heapSlackBytes - 1;
  tidier.idle();
  expect(state.collections).toBe(1);
  state.size += 1;
  tidier.idle();
  expect(state.collections).toBe(2);
});

test.each([
  ['a pause', 1, 1, paces.collection.leastMs],
  ['a longer one where a collection takes long', 1_000, 1, 1_000 * paces.collection.factor],
  ['half of that where there is twice as much to give back', 1_000, 2, 500 * paces.collection.factor],
  ['never less than a pause, however much there is', 1_000, 1_000_000, paces.collection.leastMs],
])('pauses between two collections for %s', (_title, tookMs, slacks, pauseMs) => {
  const { state, tidier } = setUp(tookMs);
  tidier.idle();
  state.size += slacks * limits.heapSlackBytes;
  state.nowMs += pauseMs - 1;
  tidier.idle();
  expect(state.collections).toBe(1);
  state.nowMs += 1;
  tidier.idle();
  expect(state.collections).toBe(2);
});

test('leaves a little garbage while changes follow each other, and collects much, or after them', () => {
  const { state, tidier } = setUp(1);
  tidier.idle();
  state.nowMs += paces.collection.leastMs + 1;
  state.size += limits.heapSlackAtWorkBytes - 1;
  tidier.worked();
  tidier.idle();
  expect(state.collections, 'a little').toBe(1);
  state.size += 1;
  tidier.idle();
  expect(state.collections, 'much').toBe(2);
  state.nowMs += paces.collection.leastMs;
  state.size += limits.heapSlackBytes;
  tidier.worked();
  state.nowMs += limits.collectQuietMs - 1;
  tidier.idle();
  expect(state.collections, 'shortly after a change').toBe(2);
  state.nowMs += paces.collection.leastMs;
  tidier.idle();
  expect(state.collections, 'later').toBe(3);
});
