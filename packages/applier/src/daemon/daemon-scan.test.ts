import { emptyNft } from '@sluice/netfilter';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { confirmed, generation, quietDaemon, tree } from './daemon.fixture.ts';
import type { Daemon } from './daemon.ts';
import { Drift } from './drift.ts';
import type { Tree } from '../inbox/files.ts';
import type { Arrival } from '../inbox/inbox.ts';
import { limits, paces } from '../limits.ts';
import type { Generation } from '../ports/journal.ts';
import { Status } from '../observe/status/status.ts';

const scanMs = 30_000;
const silent = {
  dueMs: Infinity,
  look: async () => 'unchanged' as const,
  forget: () => undefined,
  close: () => undefined,
};

/**
 * Runs a number of scans on a clock that goes on by what things take.
 * @returns the scans that compared the tables, and those that looked at every file, from 0
 */
async function scan(
  scans: number,
  tookMs: { readonly compare: (scan: number) => number; readonly look: number },
  fails = -1,
  steps: (scan: number) => number = () => 0,
) {
  let nowMs = 0;
  let count = 0;
  const compared: number[] = [];
  const whole: number[] = [];
  const daemon: Daemon = quietDaemon({
    reconciler: {
      repair: async (tables) => {
        if (tables === true) compared.push(count);
        nowMs += tables === true ? tookMs.compare(count) : 0;
        if (count === fails) throw new Error('the tool does not answer');
        return tables === true ? steps(count) : 0;
      },
    },
    inbox: {
      look: async (extent) => {
        if (extent === 'whole') whole.push(count);
        nowMs += extent === 'whole' ? tookMs.look : 0;
        return { kind: 'absent' };
      },
    },
    round: async () => {
      if (++count === scans) daemon.stop();
      nowMs = count * scanMs;
      daemon.poke();
    },
    status: new Status('node-a', () => nowMs, 1e9),
    monotonicMs: () => nowMs,
    scanIntervalMs: scanMs - 10_000,
    drift: new Drift(silent, () => nowMs),
  });
  await daemon.run();
  return { compared, whole };
}

test('looks again soon at a directory that a writer is filling, and packs nothing meanwhile', async () => {
  const [filling, unsealed] = [{ isFilling: true }, {}].map(
    (more): Arrival => ({ kind: 'refused', problems: [], ...more }),
  ) as [Arrival, Arrival];
  const idleBefore: boolean[] = [];
  let isIdle = false;
  const daemon: Daemon = quietDaemon({
    journal: { active: undefined, halted: undefined },
    inbox: {
      look: async () => {
        idleBefore.push(isIdle);
        if (idleBefore.length === 3) setTimeout(() => daemon.stop(), 2 * paces.readAhead.leastMs);
        return idleBefore.length < 3 ? filling : unsealed;
      },
    },
    idle: () => void (isIdle = true),
    monotonicMs: () => performance.now(),
    scanIntervalMs: 60_000,
  });
  await daemon.run();
  expect(idleBefore).toEqual([false, false, false]);
  expect(isIdle).toBe(true);
});

test('does not wait forever for a writer that never ends', async () => {
  let nowMs = 0;
  const looksMs: number[] = [];
  const daemon: Daemon = quietDaemon({
    journal: { active: undefined, halted: undefined },
    inbox: {
      look: async () => {
        looksMs.push(nowMs);
        if (looksMs.length > 10) daemon.stop();
        return { kind: 'refused', problems: [], isFilling: true };
      },
    },
    round: async () => void (nowMs += limits.readAheadMsMax / 4),
    idle: () => daemon.stop(),
    monotonicMs: () => nowMs,
    scanIntervalMs: 2 * limits.readAheadMsMax,
  });
  await daemon.run();
  expect(looksMs.map((at) => at / limits.readAheadMsMax)).toEqual([0, 0.25, 0.5, 0.75, 1]);
});

test('compares the tables and reads every file at every scan when that is fast', async () => {
  expect(await scan(4, { compare: () => 1, look: 1 })).toEqual({ compared: [0, 1, 2, 3], whole: [0, 1, 2, 3] });
});

test('compares and reads rarely when that is slow', async () => {
  const compare = (): number => (9.9 * scanMs) / paces.comparisonUnasked.factor;
  const look = (3.9 * scanMs) / paces.wholeLook.factor;
  const { compared, whole } = await scan(24, { compare, look });
  expect(compared).toEqual([0, 10, 20]);
  expect(whole).toEqual([0, 4, 8, 12, 16, 20]);
});

test('retries a failed comparison at the next scan', async () => {
  const compare = (): number => (9.9 * scanMs) / paces.comparisonUnasked.factor;
  expect((await scan(8, { compare, look: 0 }, 0)).compared).toEqual([0, 1]);
});

test('compares and reads every file after the maximum interval, however slow', async () => {
  const [compareScans, wholeScans] = [paces.comparisonUnasked.mostMs / scanMs, paces.wholeLook.mostMs / scanMs];
  const scans = Math.max(compareScans, wholeScans) + 2;
  const { compared, whole } = await scan(scans, { compare: () => 4_000, look: 5_000 });
  expect(compared).toEqual([0, compareScans + 1]);
  expect(whole).toEqual([0, wholeScans + 1]);
});

test('compares at the scan after a repair, whose duration sets the next interval', async () => {
  const compare = (at: number): number => (at === 0 ? 8_000 : (3.9 * scanMs) / paces.comparisonUnasked.factor);
  const { compared } = await scan(12, { compare, look: 0 }, -1, (at) => (at === 0 ? 1 : 0));
  expect(compared).toEqual([0, 1, 5, 9]);
});

test('compares at the slower pace in a drift loop, however slow a comparison is', async () => {
  const paceScans = limits.driftLoopPaceMs / scanMs;
  // Nobody undoes anything after the repair that began the fight, and a comparison would be due again when all scans are over.
  const compare = (): number => (100 * scanMs) / paces.comparisonUnasked.factor;
  const { compared } = await scan(19, { compare, look: 0 }, -1, (at) => (at <= limits.repairsMax ? 1 : 0));
  const before = Array.from({ length: limits.repairsMax + 1 }, (_, at) => at);
  expect(compared.slice(0, before.length)).toEqual(before);
  const inFight = compared.slice(limits.repairsMax);
  expect(inFight.length).toBeGreaterThan(2);
  expect(inFight.every((at, index) => index === 0 || at - (inFight[index - 1] ?? 0) <= paceScans + 1)).toBe(true);
});

test('interrupts a comparison for an event of the bundle directory, and makes it at the next scan', async () => {
  let nowMs = 0;
  const done: string[] = [];
  const bundle = { kind: 'bundle', tree: { files: new Map() } } as unknown as Arrival;
  const daemon: Daemon = quietDaemon({
    reconciler: {
      repair: async (_tables, interrupt) => {
        if (done.length === 0) daemon.poke();
        // The signal comes as a message of its own, as it does while a tool runs.
        await new Promise((resolve) => setImmediate(resolve));
        const ending = interrupt?.aborted === true ? 'interrupted' : 0;
        done.push(ending === 'interrupted' ? 'left off' : 'compared');
        return ending;
      },
      put: async () => (done.push('put'), { kind: 'same', generation }),
    },
    inbox: { look: async () => bundle },
    round: async () => {
      nowMs += scanMs;
      if (done.includes('compared')) daemon.stop();
      else daemon.poke();
    },
    status: new Status('node-a', () => nowMs, 1e9),
    monotonicMs: () => nowMs,
    scanIntervalMs: scanMs,
    drift: new Drift(silent, () => nowMs),
  });
  await daemon.run();
  expect(done).toEqual(['left off', 'put', 'compared']);
});

describe('a first release', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test.each([
    ['once packets meet it, in mode nftables', { nft: emptyNft }, limits.readBackMs],
    ['not even with the next scan, in the other modes, whose transaction reads it back', {}, undefined],
  ])('is read back %s', async (_title, mode, dueMs) => {
    const startMs = Date.now();
    const comparedMs: number[] = [];
    // Before the release the kernel was compared at such a cost that scans leave it alone for minutes.
    let usedMs = 0;
    const state = { ...generation.state, ...mode };
    const journal = { active: undefined as Generation | undefined, halted: undefined };
    const bundle = { kind: 'bundle', tree: { files: new Map() } } as unknown as Arrival;
    const daemon = quietDaemon({
      reconciler: {
        repair: async (tables) => {
          if (tables) comparedMs.push(Date.now() - startMs);
          usedMs += 500;
          return 0;
        },
        put: async () => ({ kind: 'confirmed', generation: (journal.active = { ...generation, state }), steps: 1 }),
      },
      journal,
      inbox: { look: async () => bundle },
      monotonicMs: () => Date.now(),
      processorMs: () => usedMs,
      scanIntervalMs: scanMs,
      drift: new Drift(silent, () => Date.now()),
    });
    const running = daemon.run();
    await vi.advanceTimersByTimeAsync(scanMs + 1);
    daemon.stop();
    await running;
    // The first comparison is that of a node without a release.
    expect(comparedMs).toEqual(dueMs === undefined ? [0] : [0, dueMs]);
  });
});

test('gives a halted node the endpoints of each bundle once, no release, and goes on when its rollback has ended', async () => {
  const journal = { active: generation, halted: 'refused' as string | undefined };
  const offered: Tree[] = [];
  const done: string[] = [];
  const trees = [tree('a'), tree('b'), tree('c')];
  let looks = 0;
  const daemon: Daemon = quietDaemon({
    journal,
    reconciler: {
      offerEndpoints: async (files) => {
        const one = trees.find((other) => other.files === files);
        if (one) offered.push(one);
        if (one !== trees[1]) return undefined;
        journal.halted = undefined;
        return { kind: 'rolled-back', because: 'the probes failed' };
      },
      put: async () => {
        done.push('put');
        return confirmed;
      },
    },
    ended: async (outcome) => void done.push(outcome.kind),
    inbox: {
      look: async () => {
        looks += 1;
        if (looks === 4) daemon.stop();
        else daemon.poke();
        return { kind: 'bundle', tree: trees[looks > 2 ? 1 : 0] ?? tree('') };
      },
    },
  });
  await daemon.run();
  expect(offered.map(({ digest }) => digest)).toEqual(['a', 'b']);
  expect(done).toEqual(['rolled-back', 'put', 'confirmed']);
});

test('an alarm about a bundle ends when another one is in the directory, before that one is judged', async () => {
  const [bad, next] = [tree('bad'), tree('next')];
  const reported: string[][] = [];
  const status = new Status('node-a', () => 0, 1e9);
  let rounds = 0;
  const arrivals: readonly Arrival[] = [
    { kind: 'bundle', tree: bad },
    { kind: 'bundle', tree: bad },
    { kind: 'bundle', tree: next },
    { kind: 'absent' },
  ];
  const daemon: Daemon = quietDaemon({
    status,
    inbox: { look: async () => arrivals[rounds] as Arrival },
    reconciler: {
      put: async (files) => {
        reported.push(Object.keys(status.report().alarms));
        return files === bad.files ? { kind: 'rolled-back', because: 'web fails' } : confirmed;
      },
    },
    round: async () => {
      if (++rounds === 4) daemon.stop();
      daemon.poke('whole');
    },
  });
  await daemon.run();
  expect(reported).toEqual([[], ['ROLLED_BACK'], []]);
  expect(Object.keys(status.report().alarms)).toEqual(['BUNDLE_ABSENT']);
});
