import { describe, expect, test } from 'vitest';
import { Pacer, releaseBudget } from './pace.ts';

const pace = { minIntervalMs: 200, maxDelayMs: 1000 };

test('no publication is due before a change or after its publication', () => {
  const pacer = new Pacer(pace);
  expect(pacer.dueMs).toBeUndefined();
  pacer.changed(5000, false);
  pacer.published(5020);
  expect(pacer.dueMs).toBeUndefined();
});

test('publishes the first change after a quiet period when its burst is over', () => {
  const pacer = new Pacer(pace);
  pacer.changed(5000, false);
  pacer.changed(5015, false);
  expect(pacer.dueMs).toBe(5035);
});

test('publishes the first change of endpoints after a quiet period at once, and collects those behind it', () => {
  const pacer = new Pacer(pace);
  pacer.changed(5000, true);
  pacer.changed(5001, true);
  expect(pacer.dueMs).toBe(5000);
  pacer.published(5002);
  pacer.changed(5010, true);
  pacer.changed(5190, true);
  expect(pacer.dueMs).toBe(5210);
  pacer.published(5210);
  pacer.changed(5410, true);
  expect(pacer.dueMs).toBe(5410);
});

test('endpoints wait with a Service that changed before them, and after a failure', () => {
  const pacer = new Pacer(pace);
  pacer.changed(5000, false);
  pacer.changed(5015, true);
  expect(pacer.dueMs).toBe(5035);
  pacer.failed(5035);
  pacer.changed(6000, true);
  expect(pacer.dueMs).toBe(6020);
});

test('delays changes soon after a publication by the minimum interval', () => {
  const pacer = new Pacer(pace);
  pacer.changed(5000, false);
  pacer.published(5020);
  pacer.changed(5050, false);
  expect(pacer.dueMs).toBe(5220);
});

test('publishes a burst that does not end after the maximum delay', () => {
  const pacer = new Pacer(pace);
  for (let now = 5000; now < 9000; now += 10) pacer.changed(now, false);
  expect(pacer.dueMs).toBe(6000);
});

test('publishes endpoints that never stop to change at the minimum interval, and a Service among them as soon', () => {
  const pacer = new Pacer(pace);
  pacer.changed(5000, true);
  pacer.published(5001);
  for (let now = 5010; now < 5300; now += 10) pacer.changed(now, true);
  expect(pacer.dueMs).toBe(5210);
  pacer.changed(5300, false);
  expect(pacer.dueMs).toBe(5320);
  pacer.published(5320);
  pacer.changed(5330, true);
  pacer.changed(5340, false);
  for (let now = 5350; now < 6200; now += 10) pacer.changed(now, true);
  expect(pacer.dueMs).toBe(5530);
});

test('with a change every 10 ms, keeps the minimum interval and the maximum delay', () => {
  const pacer = new Pacer({ minIntervalMs: 200, maxDelayMs: 300 });
  const published: number[] = [];
  const waited: number[] = [];
  let oldest: number | undefined;
  for (let now = 0; now < 10_000; now += 5) {
    if (now % 10 === 0) {
      pacer.changed(now, false);
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

test('schedules one retry after several failures, and none after a publication', () => {
  const pacer = new Pacer(pace);
  for (let now = 5000; now < 5500; now += 100) pacer.failed(now);
  expect(pacer.dueMs).toBe(10_400);
  pacer.changed(6000, false);
  expect(pacer.dueMs).toBe(6020);
  pacer.published(6020);
  expect(pacer.dueMs).toBeUndefined();
});

describe('the budget of releases', () => {
  const { burst, intervalMs } = releaseBudget;
  /** A Service with its endpoints comes every 100 ms. @returns when they were published, and how long each waited */
  const busy = (pacer: Pacer, ms: number): { readonly published: number[]; readonly waited: number[] } => {
    const [published, waited, pending]: number[][] = [[], [], []];
    for (let now = 0; now < ms; now += 5) {
      if (now % 100 === 0) {
        pacer.changed(now, false, `Service shop/s${now}`);
        pending?.push(now);
      }
      if (now % 100 === 5) pacer.changed(now, true, `Service shop/s${now - 5}`);
      if (pacer.dueMs === undefined || pacer.dueMs > now) continue;
      published?.push(now);
      waited?.push(...(pending?.splice(0) ?? []).map((since) => now - since));
      pacer.published(now);
    }
    return { published: published ?? [], waited: waited ?? [] };
  };

  test('publishes some Services at once after a quiet period, then those of an interval together', () => {
    const { published, waited } = busy(new Pacer(pace), 20_000);
    expect(published.slice(0, burst)).toEqual([25, 225, 425]);
    expect(published.length).toBeLessThanOrEqual(burst + 20_000 / intervalMs);
    expect(Math.max(...waited)).toBeLessThanOrEqual(intervalMs + 25);
  });

  test('is whole again after a quiet period', () => {
    const pacer = new Pacer(pace);
    busy(pacer, 20_000);
    const quiet = 20_000 + burst * intervalMs;
    pacer.published(20_000);
    pacer.changed(quiet, false, 'Service shop/a');
    expect(pacer.dueMs).toBe(quiet + 20);
  });

  test('does not hold endpoints of a Service that did not change', () => {
    const pacer = new Pacer(pace);
    busy(pacer, 20_000);
    pacer.published(20_000);
    pacer.changed(20_010, false, 'Service shop/a');
    pacer.changed(20_015, true, 'Service shop/a');
    expect(pacer.dueMs).toBeGreaterThan(20_400);
    pacer.changed(20_020, true, 'Service shop/b');
    expect(pacer.dueMs).toBe(20_200);
  });

  test('is no reason to wait for longer than the maximum delay', () => {
    const { waited } = busy(new Pacer({ minIntervalMs: 200, maxDelayMs: 300 }), 20_000);
    expect(Math.max(...waited)).toBeLessThanOrEqual(305);
  });
});
