import { expect, test } from 'vitest';
import { Drift } from './drift.ts';
import type { Change, ChangeWatch } from './kernel/changes.ts';
import type { Run } from './kernel/run.ts';
import { SavePoll } from './kernel/save-poll.ts';
import { limits } from './limits.ts';

const silent: ChangeWatch = {
  dueMs: Infinity,
  look: async () => undefined,
  forget: () => undefined,
  close: () => undefined,
};
const flush: Change = { by: 'nft (process 1)', what: ['delete table ip nat'] };

test('a change asks for a comparison at once, and the next one after a pause that grows with what comparing takes', async () => {
  let nowMs = 0;
  const drift = new Drift(silent, () => nowMs);
  expect([drift.dueMs, await drift.look()]).toEqual([Infinity, undefined]);
  drift.heard(flush);
  expect(drift.dueMs).toBeLessThanOrEqual(nowMs);
  expect(await drift.look()).toEqual(flush);
  expect(drift.take()).toEqual(flush);
  drift.compared(1_000, 0);
  drift.heard(flush);
  expect(await drift.look(), 'too early').toBeUndefined();
  nowMs = drift.dueMs;
  expect(nowMs).toBe(1_000 * limits.comparePauseFactor);
  expect(await drift.look()).toEqual(flush);
});

test('a comparison that failed is followed by the same pause, and by a scan that compares', async () => {
  let nowMs = 0;
  const drift = new Drift(silent, () => nowMs);
  drift.compared(1_000, 0);
  drift.take();
  drift.heard(flush);
  drift.failed(1_000);
  expect([drift.isDue, await drift.look()]).toEqual([true, undefined]);
  nowMs = drift.dueMs;
  expect(nowMs).toBe(1_000 * limits.comparePauseFactor);
  expect(await drift.look()).toEqual(flush);
  drift.take();
  drift.failed(0);
  expect(drift.isDue).toBe(true);
  drift.heard(flush);
  expect(drift.dueMs - nowMs).toBe(limits.comparePauseMs);
});

test.each([
  ['a comparison', 100, 0, 100 * limits.compareAgainFactor],
  ['a comparison that took very long', 60_000, 0, limits.compareAgainMsMax],
  ['a repair, whatever that took', 8_000, 1, 0],
])('after %s it is known for so long what the tables hold', (_title, tookMs, steps, knownMs) => {
  let nowMs = 0;
  const drift = new Drift(silent, () => nowMs);
  drift.compared(tookMs, steps);
  nowMs = knownMs - 1;
  expect(drift.isDue).toBe(false);
  nowMs = knownMs;
  expect(drift.isDue).toBe(true);
});

test('a comparison that nobody asked for lets others go first, though not for ever', () => {
  let nowMs = 0;
  const drift = new Drift(silent, () => nowMs);
  expect(drift.canWait).toBe(true);
  drift.steppedAside();
  nowMs = limits.compareLateMsMax - 1;
  drift.steppedAside();
  expect([drift.canWait, drift.isDue]).toEqual([true, true]);
  nowMs += 1;
  expect(drift.canWait).toBe(false);
  drift.compared(1_000, 0);
  expect([drift.canWait, drift.isDue]).toEqual([true, false]);
  drift.heard({ by: undefined, what: [], isDoubt: true });
  expect(drift.canWait, 'nobody was seen').toBe(true);
  drift.heard(flush);
  expect(drift.canWait, 'somebody was seen').toBe(false);
});

test('what is heard while a comparison runs asks for another one', async () => {
  let nowMs = 0;
  const drift = new Drift(silent, () => nowMs);
  drift.heard(flush);
  drift.take();
  drift.heard({ by: undefined, what: ['later'] });
  drift.compared(1, 1);
  nowMs = drift.dueMs;
  expect((await drift.look())?.what).toEqual(['later']);
});

test('without events a look sees that tables are other than before, whatever their counters and dates say', async () => {
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
  const later = async (): Promise<Change | undefined> => {
    nowMs = drift.dueMs;
    return drift.look();
  };
  const changed: Change = { by: undefined, what: [] };
  const unknown: Change = { ...changed, isDoubt: true };
  expect(await later(), 'nothing is known yet').toEqual(unknown);
  drift.take();
  drift.compared(0, 0);
  expect(await later(), 'the same').toBeUndefined();
  expect(drift.dueMs - nowMs, 'a look that took 100 ms of a processor').toBe(100 * limits.pollPauseFactor);
  rules = '';
  expect(await later()).toEqual(changed);
  drift.take();
  rules = 'ours';
  drift.compared(0, 1);
  expect(await later(), 'too early').toBeUndefined();
  expect(await later(), 'what was there before the repair is not known to be right').toEqual(unknown);
  drift.take();
  drift.compared(0, 0);
  expect(await later()).toBeUndefined();
});
