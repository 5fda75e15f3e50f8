import type { Problem } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { tree } from './daemon.fixture.ts';
import { Daemon } from './daemon.ts';
import type { Arrival } from '../inbox/inbox.ts';
import { limits, paces, retries } from '../limits.ts';
import type { Generation } from '../ports/journal.ts';
import { Status } from '../observe/status/status.ts';

/** How often a daemon tries what it cannot rehearse, on a clock that goes on by what rehearsals take. */

const active: Generation = { number: 1, revision: 0, version: 'v1', state: { families: {}, sysctls: new Map() } };
const scanMs = 30_000;
const [one, other] = [tree('one'), tree('other')];
const because = (code: Problem['code']): Problem => ({ code, level: 'error', message: `because of ${code}`, hint: '' });
const waiting = { wave: 2, name: 'rest', problem: because('RELEASE_WAITS') };

interface Course {
  readonly scans: number;
  readonly tookMs: number;
  readonly code?: Problem['code'];
  /** What a scan finds, from 0. */
  readonly arrival?: (scan: number) => Arrival;
  readonly machine?: (scan: number) => string;
  /** What happens behind a scan. */
  readonly behind?: (scan: number, daemon: Daemon) => void;
}

/** @returns the scans that rehearsed, and the alarms behind each scan */
async function scan({ scans, tookMs, code = 'NODE_REFUSES_RULES', arrival, machine, behind }: Course) {
  let nowMs = 0;
  let count = 0;
  const rehearsed: number[] = [];
  const alarms: string[] = [];
  const status = new Status('node-a', () => nowMs, 1e9);
  status.activate(active);
  const refusal = { problems: [because(code)] };
  const tried = <T>(ending: T): T => {
    rehearsed.push(count);
    nowMs += tookMs;
    return ending;
  };
  const daemon: Daemon = new Daemon({
    reconciler: {
      recover: async () => undefined,
      repair: async () => 0,
      put: async () => tried({ kind: 'refused', refusal }),
      rehearse: async () => tried(refusal),
    },
    journal: { active, halted: undefined },
    inbox: { look: async () => arrival?.(count) ?? { kind: 'bundle', tree: one } },
    round: async () => {
      alarms.push(Object.keys(status.report().alarms).join());
      behind?.(count, daemon);
      if (++count === scans) daemon.stop();
      nowMs = Math.max(nowMs, count * scanMs);
      daemon.poke();
    },
    status,
    log: { info: () => undefined, warn: () => undefined, error: () => undefined, fatal: () => undefined },
    machine: () => machine?.(count) ?? '',
    monotonicMs: () => nowMs,
    scanIntervalMs: scanMs,
    ready: () => undefined,
  });
  await daemon.run();
  return { rehearsed, alarms };
}

const slowMs = (3.9 * scanMs) / paces.rehearsal.factor;

test.each(['NODE_RULES_UNSTEADY', 'NODE_REFUSES_RULES'] as const)(
  'after %s the next try comes so many times later as that one took, and the alarm stays meanwhile',
  async (code) => {
    const { rehearsed, alarms } = await scan({ scans: 13, tookMs: slowMs, code });
    expect(rehearsed).toEqual([0, 5, 10]);
    expect(alarms.filter((raised) => !raised.split(',').includes(code))).toEqual([]);
  },
);

test('retries at every scan when a rehearsal is fast', async () => {
  expect((await scan({ scans: 4, tookMs: 1 })).rehearsed).toEqual([0, 1, 2, 3]);
});

test('retries after the maximum, however slow a rehearsal is', async () => {
  const longMs = limits.rehearsalMs;
  const again = Math.ceil((longMs + paces.rehearsal.mostMs) / scanMs);
  expect((await scan({ scans: again + 4, tookMs: longMs })).rehearsed).toEqual([0, again]);
});

test('retries soon after a tool that hung, and more and more rarely while it hangs', async () => {
  const tookMs = limits.commandTimeoutMs;
  const { rehearsed, alarms } = await scan({ scans: 40, tookMs, code: 'NODE_CANNOT_REHEARSE' });
  const pauses = rehearsed.slice(1).map((at, n) => (at - (rehearsed[n] ?? 0)) * scanMs - tookMs);
  expect(pauses.slice(0, 2).every((ms) => ms <= scanMs)).toBe(true);
  expect(Math.max(...pauses)).toBe(retries.rehearsal.mostMs);
  expect(new Set(alarms)).toEqual(new Set(['NODE_CANNOT_REHEARSE,RELEASE_DELAYED']));
});

test('rehearses a release that waits for its wave no more often', async () => {
  const arrival = (): Arrival => ({ kind: 'bundle', tree: one, waits: waiting });
  expect((await scan({ scans: 13, tookMs: slowMs, arrival })).rehearsed).toEqual([0, 5, 10]);
});

test.each([
  ['another bundle is there', { arrival: (at: number): Arrival => ({ kind: 'bundle', tree: at < 2 ? one : other }) }],
  ['an address came', { machine: (at: number) => (at < 2 ? 'a' : 'b') }],
  ['an operator asks', { behind: (at: number, daemon: Daemon) => void (at === 1 && daemon.poke('whole')) }],
])('retries at once when %s', async (_title, happens) => {
  expect((await scan({ scans: 4, tookMs: slowMs, ...happens })).rehearsed).toEqual([0, 2]);
});

test('reports a bad directory in between, and then the failed rehearsal again', async () => {
  const refused: Arrival = { kind: 'refused', problems: [because('BUNDLE_INCOMPLETE')] };
  const arrival = (at: number): Arrival => (at === 1 ? refused : { kind: 'bundle', tree: one });
  expect(await scan({ scans: 3, tookMs: slowMs, arrival })).toEqual({
    rehearsed: [0],
    alarms: ['NODE_REFUSES_RULES', 'BUNDLE_INCOMPLETE', 'NODE_REFUSES_RULES'],
  });
});

test('retries other refusals at every scan', async () => {
  expect((await scan({ scans: 3, tookMs: slowMs, code: 'NODE_CHAINS_NOT_OURS' })).rehearsed).toEqual([0, 1, 2]);
});
