import { afterEach, describe, expect, test } from 'vitest';
import { limits } from '../../limits.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { dataPlanes, endpointNumbers, kernelText } from '../../testing/data-plane.fixture.ts';
import { flush } from '../../testing/flush.fixture.ts';
import type { Reconciler } from './reconciler.ts';
import { type Scene, scene, steppingClock } from '../../testing/scene.fixture.ts';

/**
 * Another program flushes all rules at each moment around a release: before it, at each of its probes, each look at the kernel and each step.
 * Probes that failed without rules never excuse a bad release, and steps that the kernel refuses without them are no fault of a good one.
 */

let node: Scene = scene();
afterEach(() => node.end());

const families = ['ipv4', 'ipv6'] as const;

/**
 * Of few changed chains each is read back by itself, and a flush shows only in probation; of many the whole table is, which shows the flush, and
 * the release is planned again: there answers from after the flush would excuse it.
 */
describe.each(dataPlanes)(
  'layout $layout, mode $mode, rules that were flushed before a bad release',
  ({ layout, mode }) => {
    test.each([1, 200])('excuse it neither with %s changed Services', async (count) => {
      /** @param release 0 or 1, which has a Service more, so that it is no endpoint update */
      const bundle = (release: number, web: number) => {
        const numbers = Array.from({ length: count - 1 }, (_, n) => 100 + n + release);
        const others = Object.fromEntries(numbers.map((n, at) => [`other/s${at}`, [n]]));
        const more = release > 0 ? { 'shop/more': [2] } : {};
        return sampleBundle({ services: { 'shop/web': [web], 'shop/cart': [3], ...others, ...more }, mode });
      };
      node.end();
      node = scene();
      node.layout = layout;
      node.health = () => endpointNumbers(node.kernel).includes(3) && !endpointNumbers(node.kernel).includes(90);
      const { reconciler, journal } = await node.start({}, { clock: steppingClock() });
      expect((await reconciler.put(bundle(0, 1), false)).kind).toBe('confirmed');
      const { active } = journal;
      flush(node.kernel, mode === 'iptables' ? 'empties' : 'removes', mode);
      const endings: string[] = [];
      for (let looks = 0; looks < 3; looks++) endings.push((await reconciler.put(bundle(1, 90), false)).kind);
      await reconciler.repair();
      expect(endings).toEqual(['rolled-back', 'refused', 'refused']);
      expect([journal.active?.version, node.health()]).toEqual([active?.version, true]);
    });
  },
);

/** Where chains are ours they may stay; in mode ipvs only the virtual servers may go. */
const flushes = { iptables: ['empties', 'removes'], nftables: ['removes'], ipvs: ['removes', 'clears'] } as const;
const planesAndFlushes = dataPlanes.flatMap((plane) =>
  flushes[plane.mode].map((how) => ({
    ...plane,
    how,
  })),
);

describe.each(planesAndFlushes)('layout $layout, mode $mode, a flush that $how rules', ({ layout, mode, how }) => {
  const bundle = (web: readonly number[]) =>
    sampleBundle({ services: { 'shop/web': web, 'shop/cart': [3] }, families: [...families], mode });
  const [one, bad, good] = [bundle([1, 2]), bundle([90, 91]), bundle([4, 5])];
  /** Packets of shop/cart are answered, and none is sent to nowhere. */
  const serves = (): boolean => {
    const numbers = endpointNumbers(node.kernel);
    return numbers.includes(3) && !numbers.includes(90);
  };

  /** As the daemon does: what fails is tried again at the next scan. */
  const repair = async (reconciler: Reconciler): Promise<void> => void (await reconciler.repair().catch(() => 0));

  /** Starts a node with the first release. @param moment called before each probe, each reading of rules and each step, with the name of the call */
  async function start(moment: (call: string) => Promise<void>) {
    node.end();
    node = scene();
    node.layout = layout;
    await (await node.start()).reconciler.put(one, false);
    const probe = async () => {
      await moment('probe');
      return [{ name: 'web', healthy: serves(), seen: 'status' }];
    };
    const { kernel } = node;
    const [observe, observeChains] = [kernel.observe.bind(kernel), kernel.observeChains.bind(kernel)];
    kernel.observe = async (...asked) => {
      await moment('observe');
      return observe(...asked);
    };
    kernel.observeChains = async (...asked) => {
      await moment('observeChains');
      return observeChains(...asked);
    };
    const apply = kernel.apply.bind(kernel);
    kernel.apply = async (step) => {
      await moment('apply');
      return apply(step);
    };
    const policies = [{ name: 'web', failures: 1, window: 1 }];
    const probes = { policies, intervalMs: 1000, once: probe, untilVerdict: probe };
    return node.start({}, { probes, clock: steppingClock() });
  }

  test('rolls a bad release back, whenever the rules are flushed once', { timeout: 120_000 }, async () => {
    let met = true;
    const endings = new Set<string>();
    for (let at = -1; met; at++) {
      let calls = 0;
      met = at < 0;
      const { reconciler, journal } = await start(async () => {
        if (calls++ !== at) return;
        met = true;
        flush(node.kernel, how, mode);
      });
      const first = journal.active?.version;
      if (at < 0) flush(node.kernel, how, mode);
      for (let looks = 0; looks < 3; looks++) {
        const outcome = await reconciler.put(bad, false);
        endings.add(outcome.kind);
        expect([at, outcome]).toEqual([at, expect.not.objectContaining({ kind: 'confirmed' })]);
        await repair(reconciler);
      }
      expect([at, journal.active?.version, serves()]).toEqual([at, first, true]);
    }
    expect([...endings].toSorted()).toEqual(['refused', 'rolled-back']);
  });

  test('confirms a good release, whenever the rules are flushed once', { timeout: 120_000 }, async () => {
    let met = true;
    let isOver = false;
    for (let at = -1; met; at++) {
      let calls = 0;
      met = at < 0;
      isOver = false;
      const { reconciler, journal } = await start(async () => {
        if (isOver || calls++ !== at) return;
        met = true;
        flush(node.kernel, how, mode);
      });
      if (at < 0) flush(node.kernel, how, mode);
      let outcome = await reconciler.put(good, false);
      for (let looks = 0; looks < 3 && outcome.kind !== 'confirmed'; looks++) {
        await repair(reconciler);
        outcome = await reconciler.put(good, false);
      }
      expect([at, outcome.kind, 'failing' in outcome]).toEqual([at, 'confirmed', false]);
      expect([at, journal.record.quarantined]).toEqual([at, {}]);
      isOver = true;
      await repair(reconciler);
      expect([at, await reconciler.differences(), serves()]).toEqual([at, [], true]);
    }
  });

  test('knows after a change, and after a repair, that the rules are right; not after a flush, nor during a change', async () => {
    let inChange: string | undefined;
    let asks = async (): Promise<string | undefined> => undefined;
    const { reconciler } = await start(async (call) => {
      if (call === 'probe') inChange = await asks();
    });
    asks = async () => reconciler.unknownRules();
    expect((await reconciler.put(good, false)).kind).toBe('confirmed');
    expect([inChange, await reconciler.unknownRules()]).toEqual(['a change goes on', undefined]);
    flush(node.kernel, how, mode);
    expect(await reconciler.unknownRules()).toEqual(expect.any(String));
    const { repairs } = reconciler;
    await reconciler.repair();
    expect([await reconciler.unknownRules(), reconciler.repairs]).toEqual([undefined, repairs + 1]);
    const { reconciler: next } = await node.start();
    expect(await next.unknownRules()).toBeUndefined();
  });

  test('refuses a release for now while another program flushes the rules all the time, without blame', async () => {
    let isFlushing = false;
    const { reconciler, journal } = await start(async (call) => {
      if (isFlushing && call === 'probe') flush(node.kernel, how, mode);
    });
    const before = kernelText(node.kernel);
    isFlushing = true;
    for (const files of [bad, good]) {
      const outcome = await reconciler.put(files, false);
      expect(outcome).toMatchObject({ refusal: { problems: [{ code: 'NODE_RULES_UNSTEADY' }] } });
    }
    isFlushing = false;
    expect([journal.record.quarantined, journal.open, kernelText(node.kernel)]).toEqual([{}, undefined, before]);
    expect((await reconciler.put(good, false)).kind).toBe('confirmed');
  });

  test('blames no release for steps that the kernel refuses while another program flushes the rules before each', async () => {
    let isFlushing = false;
    const { reconciler, journal } = await start(async (call) => {
      if (isFlushing && call === 'apply') flush(node.kernel, how, mode);
    });
    isFlushing = true;
    for (let looks = 0; looks < 5; looks++) {
      const outcome = await reconciler.put(good, false).catch(() => ({ kind: 'pending' }));
      expect(outcome.kind).toMatch(/^(?:pending|rolled-back|refused)$/);
      await repair(reconciler);
    }
    expect([journal.record.quarantined, journal.halted]).toEqual([{}, undefined]);
    isFlushing = false;
    await repair(reconciler);
    expect((await reconciler.put(good, false)).kind).toBe('confirmed');
  });

  test('excuses a probe that fails on the right rules, though another program writes rules of its own all the time', async () => {
    const { journal } = await start(async () => undefined);
    let probes = 0;
    const { reconciler } = await node.start(
      {},
      {
        probes: {
          policies: [{ name: 'web', failures: 1, window: 1 }],
          intervalMs: 1000,
          once: async () => [{ name: 'web', healthy: false, seen: 'status' }],
          untilVerdict: async () => {
            node.kernel.load('ipv4', `*filter\n:CNI-${probes++} - [0:0]\nCOMMIT\n`);
            return [{ name: 'web', healthy: false, seen: 'status' }];
          },
        },
      },
    );
    expect(journal.active?.number).toBe(1);
    expect(await reconciler.put(good, false)).toMatchObject({ kind: 'confirmed', failing: ['web'] });
    expect(probes).toBe(limits.baselineTriesMax);
  });
});
