import { expect, test } from 'vitest';
import { Drift } from './drift.ts';
import type { ForeignChange, ChangeWatch } from '../kernel/changes/foreign-change.ts';
import type { Run } from '../kernel/command.ts';
import { SavePoll } from '../kernel/changes/changes.ts';
import { limits, paces } from '../limits.ts';
import { repairOf } from '../observe/status/repairs.ts';

const silent: ChangeWatch = {
  dueMs: Infinity,
  look: async () => 'unchanged' as const,
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
    expect(nowMs, 'no long pause').toBe(times * paces.comparison.leastMs);
    expect(await drift.look()).toBe(true);
    expect(drift.take()).toEqual([flush]);
    drift.compared(1_000, 0);
  }
  drift.onEvent(flush);
  nowMs += paces.comparison.leastMs;
  expect(await drift.look(), 'too early').toBe(false);
  const paidMs = (limits.comparisonsAtOnce + 1) * 1_000 * paces.comparison.factor;
  nowMs = paidMs;
  drift.take();
  drift.compared(1_000, 0);
  drift.onEvent(flush);
  expect(drift.dueMs - nowMs, 'all are paid for').toBe(paces.comparison.leastMs);
});

test('doubts rules that a program was seen to change until a comparison that began later has ended', () => {
  let nowMs = 0;
  const drift = new Drift(silent, () => nowMs);
  drift.onEvent({ by: undefined, what: [] });
  expect(drift.doubt, 'a change, but not of our rules').toBeUndefined();
  drift.onEvent(flush);
  expect(drift.doubt).toBe('changed');
  drift.take();
  drift.onEvent(flush);
  drift.compared(100, 3);
  expect(drift.doubt, 'they were changed again meanwhile').toBe('changed');
  drift.take();
  drift.failed(100);
  expect(drift.doubt).toBe('changed');
  drift.compared(100, 3);
  expect(drift.doubt, 'each asker hears of it').toBe('changed');
  nowMs += limits.vip.calmMs;
  expect(drift.doubt).toBeUndefined();
  nowMs += limits.vip.seenMs + 1;
  expect(drift.doubt).toBe('unseen');
});

test('a repair costs the pause of a comparison, so that the next one is not late', async () => {
  let nowMs = 0;
  const drift = new Drift(silent, () => nowMs);
  drift.compared(500, 0);
  drift.onEvent(flush);
  nowMs = drift.dueMs;
  drift.take();
  drift.compared(8_000, 3);
  // The scan after a repair compares.
  drift.take();
  drift.compared(500, 0);
  drift.onEvent({ by: undefined, what: [], isDoubt: true });
  expect(drift.dueMs - nowMs).toBe(paces.comparison.leastMs);
});

test('pauses after a failed comparison too, and compares at the next scan', async () => {
  let nowMs = 0;
  const drift = new Drift(silent, () => nowMs);
  spent(drift);
  drift.onEvent(flush);
  drift.failed(1_000);
  expect([drift.isDue, await drift.look()]).toEqual([true, false]);
  nowMs = drift.dueMs;
  expect(nowMs).toBe(1_000 * paces.comparison.factor);
  expect(await drift.look()).toBe(true);
  drift.take();
  drift.failed(0);
  expect(drift.isDue).toBe(true);
});

test('a failed repair costs no longer pause than a comparison', () => {
  const drift = new Drift(silent, () => 0);
  spent(drift);
  drift.onEvent(flush);
  drift.failed(8_000);
  expect(drift.dueMs).toBe(1_000 * paces.comparison.factor);
});

test('tells since when the rules are not known to be right, and reports that when it is too long', async () => {
  let nowMs = 0;
  let seen: Awaited<ReturnType<ChangeWatch['look']>> = 'unchanged';
  const drift = new Drift({ ...silent, dueMs: 0, look: async () => seen }, () => nowMs);
  const lookAt = async (ms: number): Promise<readonly [number, number | undefined]> => {
    nowMs = ms;
    await drift.look();
    return [drift.ageMs, drift.unseenMs];
  };
  const bound = limits.unseenMsMax;
  expect(await lookAt(bound + 1), 'nothing was compared yet').toEqual([bound + 1, bound + 1]);
  drift.compared(0, 1);
  expect(await lookAt(10 * bound), 'nothing changed since').toEqual([0, undefined]);
  seen = 'unknown';
  expect(await lookAt(11 * bound)).toEqual([bound, undefined]);
  expect(await lookAt(11 * bound + 1)).toEqual([bound + 1, bound + 1]);
  seen = 'unchanged';
  expect(await lookAt(12 * bound), 'also until now').toEqual([0, undefined]);
  seen = flush;
  expect(await lookAt(14 * bound), 'a change').toEqual([2 * bound, 2 * bound]);
  seen = 'unchanged';
  expect(await lookAt(15 * bound), 'it is not compared yet').toEqual([3 * bound, 3 * bound]);
  drift.take();
  drift.failed(0);
  expect(await lookAt(16 * bound), 'and could not be compared').toEqual([4 * bound, 4 * bound]);
  drift.wasInterrupted(0);
  expect(await lookAt(17 * bound), 'or was interrupted').toEqual([5 * bound, 5 * bound]);
  drift.compared(0, 0);
  expect(await lookAt(18 * bound)).toEqual([0, undefined]);
  drift.compared(bound, 0);
  seen = 'unknown';
  const slow = bound * paces.comparison.factor * limits.unseenPausesMax;
  expect((await lookAt(nowMs + slow))[1], 'where a comparison is slow, its pauses are longer').toBeUndefined();
  expect((await lookAt(nowMs + 1))[1]).toBe(slow + 1);
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
  ['a comparison', 100, 0, 100 * paces.comparisonUnasked.factor],
  ['a comparison that took very long', 60_000, 0, paces.comparisonUnasked.mostMs],
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
  nowMs = 100 * paces.comparison.factor - 1;
  expect(drift.isDue, 'what was lost is not paid for').toBe(false);
  nowMs += 1;
  expect(drift.isDue).toBe(true);
  drift.wasInterrupted(60_000);
  nowMs += paces.comparisonAgain.mostMs;
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
  expect(drift.dueMs - nowMs, 'a look that took 100 ms of a processor').toBe(100 * paces.poll.factor);
  rules = '';
  expect(await later()).toEqual([changed]);
  rules = 'ours';
  drift.compared(0, 1);
  expect(await later(), 'the state before the repair is unknown').toEqual([unknown]);
  drift.compared(0, 0);
  expect(await later()).toEqual([]);
});
