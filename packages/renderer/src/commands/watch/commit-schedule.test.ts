import { expect, test } from 'vitest';
import { CommitSchedule } from './commit-schedule.ts';

const limits = { settleMs: 100, maxDelayMs: 250, pushesMax: 5, pushPauseMs: 5, retryMs: 1_000, retryMaxMs: 3_000 };

test('commits a burst when it settles, or after the maximum delay', () => {
  const schedule = new CommitSchedule(limits);
  schedule.published(true, 0);
  expect(schedule.dueMs).toBe(100);
  for (let now = 90; now < 300; now += 90) schedule.published(true, now);
  expect(schedule.dueMs).toBe(270);
  schedule.began();
  expect(schedule.dueMs).toBeUndefined();
});

test('commits a publication without changes only if an earlier one is not committed and pushed', () => {
  const schedule = new CommitSchedule(limits);
  expect(schedule.published(false, 0)).toBe(true);
  schedule.began();
  expect(schedule.published(false, 10)).toBe(true);
  schedule.began();
  schedule.succeeded();
  expect([schedule.published(false, 20), schedule.dueMs]).toEqual([false, undefined]);
});

test('retries with growing delays, which publications do not shorten, but one during the attempt', () => {
  const schedule = new CommitSchedule(limits);
  schedule.published(true, 0);
  const delays = [1, 2, 3].map(() => {
    schedule.began();
    schedule.failed(0);
    schedule.published(true, 10);
    return schedule.dueMs;
  });
  expect(delays).toEqual([1_000, 2_000, 3_000]);
  schedule.began();
  schedule.published(true, 10);
  schedule.failed(20);
  expect(schedule.dueMs).toBe(110);
});

test('forgets failures when another process takes over, and commits the first publication of the next term', () => {
  const schedule = new CommitSchedule(limits);
  schedule.published(true, 0);
  schedule.began();
  schedule.failed(0);
  schedule.reset();
  expect([schedule.hasFailed, schedule.dueMs]).toEqual([false, undefined]);
  expect(schedule.published(false, 0)).toBe(true);
});
