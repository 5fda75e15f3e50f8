import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { MemoryReturn, returnLimits } from './heap.ts';

let collections: number;
/** Of the heap. */
let bytes: number;
let memory: MemoryReturn;
beforeEach(() => {
  vi.useFakeTimers();
  collections = 0;
  bytes = 100;
  memory = new MemoryReturn(
    () => (collections += 1),
    () => Date.now(),
    () => bytes,
  );
});
afterEach(() => {
  vi.useRealTimers();
});

test('returns memory once, at the first pause after everything was rendered', () => {
  memory.published(true);
  vi.advanceTimersByTime(returnLimits.quietMs - 1);
  memory.published(false);
  vi.advanceTimersByTime(returnLimits.quietMs - 1);
  expect(collections).toBe(0);
  vi.advanceTimersByTime(1);
  expect(collections).toBe(1);
  memory.published(false);
  vi.advanceTimersByTime(returnLimits.waitMs);
  expect(collections).toBe(1);
});

test('returns memory after a while although changes never pause', () => {
  memory.published(true);
  for (let ms = 0; ms < returnLimits.waitMs; ms += 200) {
    vi.advanceTimersByTime(200);
    memory.published(false);
  }
  vi.advanceTimersByTime(0);
  expect(collections).toBe(1);
});

test('returns memory at most once a minute', () => {
  memory.published(true);
  vi.advanceTimersByTime(returnLimits.quietMs);
  memory.published(true);
  vi.advanceTimersByTime(returnLimits.betweenMs - 1);
  expect(collections).toBe(1);
  vi.advanceTimersByTime(1);
  expect(collections).toBe(2);
});

test('returns memory when changes have left much of it', () => {
  memory.published(true);
  vi.advanceTimersByTime(returnLimits.betweenMs);
  bytes += returnLimits.slackBytes;
  memory.published(false);
  vi.advanceTimersByTime(returnLimits.waitMs);
  expect(collections).toBe(1);
  bytes += 1;
  memory.published(false);
  vi.advanceTimersByTime(returnLimits.quietMs);
  expect(collections).toBe(2);
  memory.published(false);
  vi.advanceTimersByTime(returnLimits.waitMs);
  expect(collections, 'what it takes now is the measure').toBe(2);
});
