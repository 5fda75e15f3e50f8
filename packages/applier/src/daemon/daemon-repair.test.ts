import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { quietDaemon } from './daemon.fixture.ts';
import type { Daemon } from './daemon.ts';
import { Drift } from './drift.ts';
import type { ForeignChange } from '../kernel/changes/foreign-change.ts';
import { limits, paces } from '../limits.ts';
import { StillDiffers } from '../ports/failure.ts';
import { Status } from '../observe/status/status.ts';

const silent = {
  dueMs: Infinity,
  look: async () => 'unchanged' as const,
  forget: () => undefined,
  close: () => undefined,
};
const foreign: ForeignChange = { by: 'agent (process 7)', what: ['iptables -t nat -D PREROUTING 1'] };
const tookMs = 100;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/**
 * Runs the loop while somebody changes the tables every second and during each repair, too.
 * @param repair how each repair ends
 * @param told the change that is told each second; null: none
 * @returns the repairs that were begun within so many minutes, and the alarms that stand then
 */
async function repairs(minutes: number, repair: () => number, told: ForeignChange | null = foreign) {
  const beginsMs: number[] = [];
  const now = (): number => performance.now();
  const beginMs = now();
  const status = new Status('node-a', now, 1e9);
  const change = (): void => {
    if (told) daemon.changed(told);
  };
  const daemon: Daemon = quietDaemon({
    reconciler: {
      repair: async () => {
        beginsMs.push(now() - beginMs);
        await new Promise((done) => void setTimeout(done, tookMs));
        change();
        return repair();
      },
    },
    status,
    monotonicMs: now,
    scanIntervalMs: 30_000,
    drift: new Drift(silent, now),
  });
  const running = daemon.run();
  const agent = setInterval(change, 1000);
  await vi.advanceTimersByTimeAsync(minutes * 60_000);
  const begun = beginsMs.length;
  clearInterval(agent);
  daemon.stop();
  await vi.advanceTimersByTimeAsync(60_000);
  await running;
  return { begun, alarms: Object.keys(status.report().alarms) };
}

test('retries a failing repair at the pace of comparisons, however often another program changes the tables', async () => {
  const { begun, alarms } = await repairs(1, () => {
    throw new Error('the payload is refused');
  });
  expect(begun).toBeGreaterThan(10);
  expect(begun).toBeLessThanOrEqual(60_000 / (tookMs * paces.comparison.factor) + limits.comparisonsAtOnce);
  expect(alarms).toContain('KERNEL');
  expect(alarms, 'a failed repair was not undone').not.toContain('DRIFT_LOOP');
});

test.each([
  [
    'before it is verified',
    (): number => {
      throw new StillDiffers(['a jump']);
    },
  ],
  ['afterwards', (): number => 1],
] as const)('raises DRIFT_LOOP and slows down when a program undoes each repair %s', async (_title, repair) => {
  const { begun, alarms } = await repairs(10, repair);
  expect(alarms).toEqual(expect.arrayContaining(['DRIFT_LOOP', 'FIGHT']));
  expect(begun).toBeGreaterThan(limits.repairsMax + 5);
  expect(begun).toBeLessThanOrEqual(limits.repairsMax + 1 + 10 * (60_000 / limits.driftLoopPaceMs));
});

test.each([
  ['without a change', null],
  ['with doubts alone', { by: undefined, what: [], isDoubt: true }],
] as const)(
  'no other program undoes, %s, what a tool did not do or cannot read: it is tried again',
  async (_title, told) => {
    const differs = (): number => {
      throw new StillDiffers(['a jump']);
    };
    const { begun, alarms } = await repairs(10, differs, told);
    expect(alarms).toContain('KERNEL');
    expect(alarms).not.toContain('DRIFT_LOOP');
    expect(begun).toBeGreaterThan(18);
  },
);

test('a repair before a release is in the history, and counts for a drift loop', async () => {
  const status = new Status('node-a', () => 0, 1e9);
  const drift = new Drift(silent, () => 0);
  const told: unknown[] = [];
  const daemon: Daemon = quietDaemon({ status, drift, repaired: (repair) => void told.push(repair) });
  for (let times = 0; times <= limits.repairsMax; times++) {
    daemon.changed(foreign);
    daemon.onEvent('repaired', { steps: 2 });
  }
  expect(told.at(-1)).toEqual({ steps: 2, by: foreign.by, what: foreign.what });
  const running = daemon.run();
  await vi.advanceTimersByTimeAsync(1);
  expect(Object.keys(status.report().alarms)).toContain('DRIFT_LOOP');
  daemon.stop();
  await running;
});

test('a rollback that had to wait raises the alarm of its release, and is in a receipt, when it is done', async () => {
  const status = new Status('node-a', () => 0, 1e9);
  const receipts: unknown[] = [];
  const outcome = { kind: 'rolled-back', because: 'probe web fails' } as const;
  const daemon: Daemon = quietDaemon({
    reconciler: {
      repair: async (_tables, _interrupt, ended) => {
        ended?.(outcome);
        daemon.stop();
        return 0;
      },
    },
    status,
    ended: async (ending) => void receipts.push(ending),
  });
  await daemon.run();
  expect(receipts).toEqual([outcome]);
  expect(status.report().alarms).toMatchObject({ ROLLED_BACK: 'probe web fails' });
});
