import { expect, test } from 'vitest';
import { Drift } from './drift.ts';
import type { ForeignChange, ChangeWatch } from '../kernel/changes/foreign-change.ts';
import type { Run } from '../kernel/command.ts';
import { SavePoll } from '../kernel/changes/save-poll.ts';
import { limits } from '../limits.ts';
import { repairOf } from '../status/repairs.ts';

const silent: ChangeWatch = {
  dueMs: Infinity,
  look: async () => undefined,
  forget: () => undefined,
  close: () => undefined,
};
const flush: ForeignChange = { by: 'nft (process 1)', what: ['delete table ip nat'] };

/** The next comparison is the last one without a pause behind it. */
const spent = (drift: Drift): void => {
  for (let times = 0; times < limits.comparisonsAtOnce - 1; times++) drift.compared(1_000, 0);
};

test('compares at once after a few changes, then after a pause that grows with the cost of a comparison', async () => {
  let nowMs = 0;
  const drift = new Drift(silent, () => nowMs);
  expect([drift.dueMs, await drift.look()]).toEqual([Infinity, false]);
  for (let times = 0; times < limits.comparisonsAtOnce; times++) {
    drift.onEvent(flush);
    nowMs = Math.max(nowMs, drift.dueMs);
    expect(nowMs, 'no long pause').toBe(times * limits.comparePauseMs);
    expect(await drift.look()).toBe(true);
    expect(drift.take()).toEqual([flush]);
    drift.compared(1_000, 0);
  }
  drift.onEvent(flush);
  nowMs += limits.comparePauseMs;
  expect(await drift.look(), 'too early').toBe(false);
  const paidMs = (limits.comparisonsAtOnce + 1) * 1_000 * limits.comparePauseFactor;
  nowMs = paidMs;
  drift.take();
  drift.compared(1_000, 0);
  drift.onEvent(flush);
  expect(drift.dueMs - nowMs, 'all are paid for').toBe(limits.comparePauseMs);
});

test('pauses after a failed comparison too, and compares at the next scan', async () => {
  let nowMs = 0;
  const drift = new Drift(silent, () => nowMs);
  spent(drift);
  drift.onEvent(flush);
  drift.failed(1_000);
  expect([drift.isDue, await drift.look()]).toEqual([true, false]);
  nowMs = drift.dueMs;
  expect(nowMs).toBe(1_000 * limits.comparePauseFactor);
  expect(await drift.look()).toBe(true);
  drift.take();
  drift.failed(0);
  expect(drift.isDue).toBe(true);
});

test('does not report rules as right when they were not read for long', async () => {
  let nowMs = 0;
  const told = new Drift(silent, () => nowMs);
  nowMs = 10 * limits.unseenMsMax;
  expect(told.unseenMs, 'events tell').toBeUndefined();
  told.onEvent(flush);
  expect(told.unseenMs).toBeUndefined();
  nowMs += limits.unseenMsMax + 1;
  expect(told.unseenMs).toBe(limits.unseenMsMax + 1);
  told.take();
  told.compared(0, 1);
  expect(told.unseenMs).toBeUndefined();

  let looks: readonly (ForeignChange | undefined)[] = [undefined];
  const polled = new Drift({ ...silent, dueMs: 0, look: async () => looks[0] }, () => nowMs);
  nowMs += limits.unseenMsMax;
  expect(polled.unseenMs).toBeUndefined();
  nowMs += 1;
  expect(polled.unseenMs).toBe(limits.unseenMsMax + 1);
  await polled.look();
  expect(polled.unseenMs, 'a good look').toBeUndefined();
  looks = [flush];
  nowMs += limits.unseenMsMax + 1;
  await polled.look();
  expect(polled.unseenMs, 'a look that saw something').toBe(limits.unseenMsMax + 1);
});

test('reports each program with its changes', () => {
  const drift = new Drift(silent, () => 0);
  drift.onEvent({ by: undefined, what: [], isDoubt: true });
  drift.onEvent({ by: 'docker (process 2)', what: [] });
  drift.onEvent(flush);
  drift.onEvent({ by: 'docker (process 2)', what: [] });
  expect(repairOf(3, drift.take())).toEqual({ steps: 3, by: flush.by, what: flush.what });
  drift.onEvent({ by: 'docker (process 2)', what: [] });
  expect(repairOf(1, drift.take()), 'no other program').toEqual({ steps: 1, by: 'docker (process 2)', what: [] });
  expect(repairOf(1, drift.take())).toEqual({ steps: 1, by: null, what: [] });
});

test.each([
  ['a comparison', 100, 0, 100 * limits.compareAgainFactor],
  ['a comparison that took very long', 60_000, 0, limits.compareAgainMsMax],
  ['a repair, whatever that took', 8_000, 1, 0],
])('trusts the tables for a while after %s', (_title, tookMs, steps, knownMs) => {
  let nowMs = 0;
  const drift = new Drift(silent, () => nowMs);
  drift.compared(tookMs, steps);
  nowMs = knownMs - 1;
  expect(drift.isDue).toBe(false);
  nowMs = knownMs;
  expect(drift.isDue).toBe(true);
});

test('postpones a periodic comparison for urgent work, within a limit', () => {
  let nowMs = 0;
  const drift = new Drift(silent, () => nowMs);
  expect(drift.canWait).toBe(true);
  drift.wasInterrupted(100);
  nowMs = 100 * limits.comparePauseFactor - 1;
  expect(drift.isDue, 'what was lost is not paid for').toBe(false);
  nowMs += 1;
  expect(drift.isDue).toBe(true);
  drift.wasInterrupted(60_000);
  nowMs += limits.compareBegunMsMax;
  expect(drift.isDue, 'the pause is bounded').toBe(true);
  nowMs = limits.compareLateMsMax - 1;
  drift.wasInterrupted(0);
  expect([drift.canWait, drift.isDue]).toEqual([true, true]);
  nowMs += 1;
  expect(drift.canWait).toBe(false);
  drift.compared(1_000, 0);
  expect([drift.canWait, drift.isDue]).toEqual([true, false]);
  drift.onEvent({ by: undefined, what: [], isDoubt: true });
  expect(drift.canWait, 'no foreign change was seen').toBe(true);
  drift.onEvent(flush);
  expect(drift.canWait, 'a foreign change was seen').toBe(false);
});

test('compares again after a change that arrives during a comparison', async () => {
  let nowMs = 0;
  const drift = new Drift(silent, () => nowMs);
  drift.onEvent(flush);
  drift.take();
  drift.onEvent({ by: undefined, what: ['later'] });
  drift.compared(1, 1);
  nowMs = drift.dueMs;
  expect(await drift.look()).toBe(true);
  expect(drift.take().map(({ what }) => what)).toEqual([['later']]);
});

test('polls for changed tables without events, ignoring counters and dates', async () => {
  let nowMs = 0;
  let rules = '-A SLUICE-SERVICES -g ROOT';
  let reads = 0;
  let usedMs = 0;
  const run: Run = async ({ onOutput }) => {
    nowMs += 10;
    usedMs += 50;
    const text = `# made at ${reads}\n*nat\n:OUTPUT ACCEPT [${reads}:7]\n${rules}\nCOMMIT\n`;
    const cut = reads++ % text.length;
    onOutput?.(text.slice(0, cut));
    onOutput?.(text.slice(cut));
    return { exitCode: 0, stdout: '', stderr: '', why: '' };
  };
  const drift = new Drift(
    new SavePoll(
      ['iptables-save', 'ip6tables-save'],
      run,
      () => nowMs,
      () => usedMs,
    ),
    () => nowMs,
  );
  const later = async (): Promise<readonly ForeignChange[]> => {
    nowMs = drift.dueMs;
    return (await drift.look()) ? drift.take() : [];
  };
  const changed: ForeignChange = { by: undefined, what: [] };
  const unknown: ForeignChange = { ...changed, isDoubt: true };
  expect(await later(), 'nothing is known yet').toEqual([unknown]);
  drift.compared(0, 0);
  expect(await later(), 'the same').toEqual([]);
  expect(drift.dueMs - nowMs, 'a look that took 100 ms of a processor').toBe(100 * limits.pollPauseFactor);
  rules = '';
  expect(await later()).toEqual([changed]);
  rules = 'ours';
  drift.compared(0, 1);
  expect(await later(), 'the state before the repair is unknown').toEqual([unknown]);
  drift.compared(0, 0);
  expect(await later()).toEqual([]);
});
