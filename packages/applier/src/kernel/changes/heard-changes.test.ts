import { beforeEach, describe, expect, test } from 'vitest';
import { limits } from '../../limits.ts';
import type { ForeignChange } from './foreign-change.ts';
import { HeardChanges } from './changes.ts';
import { type Heard, judgeHearing } from './hearing.ts';

const late = limits.hearLateMsMax;

describe('what follows from a look', () => {
  const hears: Heard = { monitor: 'hears', moved: false, hasReported: false, hasEverReported: false, lateMs: late };
  test.each([
    ['nothing changed', hears, 'complete'],
    ['a change was reported', { ...hears, moved: true, hasReported: true }, 'complete'],
    ['a change was not reported yet', { ...hears, moved: true, lateMs: late - 1 }, 'late'],
    ['a change was not reported', { ...hears, moved: true }, 'deaf'],
    ['nothing is counted, and an old monitor may not report', { ...hears, moved: undefined }, 'unknown'],
    ['nothing is counted, and monitors do report', { ...hears, moved: undefined, hasEverReported: true }, 'complete'],
    ['it has not read everything', { ...hears, monitor: 'behind', moved: true, hasReported: true, lateMs: 0 }, 'late'],
    ['it does not read', { ...hears, monitor: 'behind', moved: true, hasReported: true }, 'deaf'],
    ['it is stopped, and nothing changed', { ...hears, monitor: 'behind' }, 'deaf'],
    ['it is gone, and nothing changed', { ...hears, monitor: 'away' }, 'complete'],
    ['it is gone, and something changed', { ...hears, monitor: 'away', moved: true, hasReported: true }, 'moved'],
    [
      'it is gone, and nothing is counted',
      { ...hears, monitor: 'away', moved: undefined, hasEverReported: true },
      'unknown',
    ],
  ] as const)('%s', (_title, heard, hearing) => {
    expect(judgeHearing(heard)).toBe(hearing);
  });
});

describe('changes that are heard', () => {
  let nowMs: number;
  let count: string | undefined;
  let restarts: number;
  let polls: number;
  let polled: ForeignChange | 'unchanged';
  let monitor: { state: Heard['monitor']; reports: number; hasEverReported: boolean; returnMs: number };
  let heard: HeardChanges;
  beforeEach(async () => {
    [nowMs, count, restarts, polls, polled] = [0, '1', 0, 0, 'unchanged'];
    monitor = { state: 'hears', reports: 0, hasEverReported: false, returnMs: -Infinity };
    const poll = {
      dueMs: 0,
      look: async () => {
        polls += 1;
        return polled;
      },
      forget: () => undefined,
      close: () => undefined,
    };
    heard = new HeardChanges({
      monitor: Object.assign(monitor, { restart: () => void (restarts += 1), close: () => undefined }),
      count: { read: async () => count },
      poll,
      monotonicMs: () => nowMs,
    });
    await Promise.resolve();
  });
  const look = async (): ReturnType<HeardChanges['look']> => {
    nowMs = heard.dueMs;
    return heard.look();
  };
  const changed = { by: undefined, what: [] };

  test('a change that is reported needs no comparison', async () => {
    expect(await look()).toBe('unchanged');
    count = '2';
    monitor.reports = 3;
    expect(await look()).toBe('unchanged');
    expect(restarts).toBe(0);
  });

  test('a report that comes a little later is waited for', async () => {
    count = '2';
    expect(await look()).toBe('unknown');
    expect(heard.dueMs - nowMs).toBe(limits.hearAgainMs);
    monitor.reports = 1;
    expect(await look()).toBe('unchanged');
    expect(heard.dueMs - nowMs).toBe(limits.hearPauseMs);
    expect(restarts).toBe(0);
  });

  test('a change that is not reported is a reason to compare once, and to replace the monitor', async () => {
    count = '2';
    const beganMs = heard.dueMs;
    let seen = await look();
    while (seen === 'unknown') seen = await look();
    expect(seen).toEqual(changed);
    expect(nowMs - beganMs).toBe(limits.hearLateMsMax);
    expect(restarts).toBe(1);
    expect(await look()).toBe('unchanged');
  });

  test('reports that keep coming do not hide that some are unread for long, but are a sign of life', async () => {
    monitor.state = 'behind';
    count = '2';
    for (let times = 0; times < 10; times++) {
      monitor.reports += 1;
      expect(await look()).toBe('unknown');
    }
    let seen = await look();
    while (seen === 'unknown') seen = await look();
    expect([seen, restarts]).toEqual([changed, 1]);
  });

  test('a stopped monitor is replaced without a comparison while nothing changes', async () => {
    monitor.state = 'behind';
    let seen = await look();
    while (seen === 'unknown') seen = await look();
    expect([seen, restarts]).toEqual(['unchanged', 1]);
  });

  test('without a monitor the count says whether there is anything to compare, and is no proof of a foreign change after our own', async () => {
    monitor.state = 'away';
    expect(await look()).toBe('unchanged');
    count = '2';
    expect(await look()).toEqual(changed);
    expect(await look()).toBe('unchanged');
    heard.forget();
    count = '3';
    expect(await look()).toEqual({ ...changed, isDoubt: true });
    expect(await look()).toBe('unchanged');
    expect(polls).toBe(0);
  });

  test('without either it polls, and a count that begins is no proof for the time before', async () => {
    monitor.state = 'away';
    count = undefined;
    polled = changed;
    expect(await look()).toEqual(changed);
    polled = 'unchanged';
    expect(await look()).toBe('unchanged');
    monitor.returnMs = Infinity;
    expect(await look(), 'the next monitor asks for a comparison').toBe('unknown');
    expect(polls).toBe(2);
    count = '1';
    expect(await look()).toEqual({ ...changed, isDoubt: true });
    expect(await look()).toBe('unchanged');
  });

  test('a count that ends says nothing, and a monitor that reports is believed', async () => {
    expect(await look()).toBe('unchanged');
    count = undefined;
    monitor.hasEverReported = true;
    expect(await look()).toBe('unchanged');
    count = '1';
    expect(await look(), 'it began again').toBe('unchanged');
    count = '2';
    expect(await look()).toBe('unknown');
    expect(restarts).toBe(0);
  });
});
