import { expect, test } from 'vitest';
import { Pacer } from './pace.ts';

const pace = { minIntervalMs: 200, maxDelayMs: 1000 };

test('nothing is due before a change, nor after it is published', () => {
  const pacer = new Pacer(pace);
  expect(pacer.dueMs).toBeUndefined();
  pacer.changed(5000);
  pacer.published(5020);
  expect(pacer.dueMs).toBeUndefined();
});

test('the first change after a quiet time waits only until its burst is over', () => {
  const pacer = new Pacer(pace);
  pacer.changed(5000);
  pacer.changed(5015);
  expect(pacer.dueMs).toBe(5035);
});

test('changes soon after a publication wait for the interval', () => {
  const pacer = new Pacer(pace);
  pacer.changed(5000);
  pacer.published(5020);
  pacer.changed(5050);
  expect(pacer.dueMs).toBe(5220);
});

test('a burst that does not end is published after the greatest delay', () => {
  const pacer = new Pacer(pace);
  for (let now = 5000; now < 9000; now += 10) pacer.changed(now);
  expect(pacer.dueMs).toBe(6000);
});

test('under a change every 10 ms, publications are an interval apart and each change is in one within the delay', () => {
  const pacer = new Pacer({ minIntervalMs: 200, maxDelayMs: 300 });
  const published: number[] = [];
  const waited: number[] = [];
  let oldest: number | undefined;
  for (let now = 0; now < 10_000; now += 5) {
    if (now % 10 === 0) {
      pacer.changed(now);
      oldest ??= now;
    }
    if (pacer.dueMs !== undefined && pacer.dueMs <= now) {
      waited.push(now - (oldest ?? now));
      published.push(now);
      pacer.published(now);
      oldest = undefined;
    }
  }
  expect(Math.max(...waited)).toBeLessThanOrEqual(305);
  const gaps = published.slice(1).map((now, index) => now - (published[index] ?? 0));
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(200);
  expect(Math.max(...gaps)).toBeLessThanOrEqual(315);
});
