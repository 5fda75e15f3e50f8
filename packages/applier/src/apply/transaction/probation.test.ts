import type { BundleFiles } from '@sluice/bundle';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ipvsBundle } from '../../../../bundle/src/virtual/bundle.fixture.ts';
import { limits } from '../../limits.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { dataPlanes, endpointNumbers } from '../../testing/data-plane.fixture.ts';
import { Countdown, mortalJournal, mortalKernel } from '../../testing/faults.fixture.ts';
import { type Scene, scene, steppingClock } from '../../testing/scene.fixture.ts';
import type { Decision } from '../../ports/operator.ts';
import type { Offers } from './offers.ts';

let node: Scene = scene();
afterEach(() => node.end());

type Services = Readonly<Record<string, readonly number[]>>;
type Mode = (typeof dataPlanes)[number]['mode'];
const bundleIn = (mode: Mode, services: Services): BundleFiles =>
  sampleBundle({ services, families: ['ipv4', 'ipv6'], mode });
const old: Services = { 'shop/web': [1, 2], 'shop/cart': [3] };
/** A release with a new Service. */
const release: Services = { ...old, 'shop/new': [6] };

/** Bundles that arrive during probation, one after the other. */
function arriving(...bundles: readonly BundleFiles[]): Offers {
  const left = [...bundles];
  return {
    arrival: () => (left.length > 0 ? Promise.resolve() : new Promise(() => undefined)),
    look: async () => {
      const files = left.shift();
      return files && { files, onlyEndpoints: false };
    },
  };
}

const endpoints = (): readonly number[] => endpointNumbers(node.kernel);

const probation = { seconds: 5, deadmanSeconds: 30, mode: 'auto', decisionSeconds: 60, sources: [] } as const;

test.each([
  ['passes', () => true, 'wrr'],
  ['fails', (asked: number) => asked !== 3, 'rr'],
] as const)(
  'mode ipvs: an endpoint removed during probation stays removed when the release %s',
  async (_what, healthy, scheduler) => {
    node = scene();
    const web = 'profiles/default/services/shop/web.ipvs';
    const edited = (edit: (text: string) => string): BundleFiles =>
      new Map([...ipvsBundle, [web, edit(ipvsBundle.get(web) ?? '')]]);
    const rescheduled = (text: string): string => text.replaceAll(' -s rr', ' -s wrr');
    const newest = edited((text) => rescheduled(text).replace('-a -t 10.96.0.10:80 -r 10.244.2.6:8080 -m -w 1\n', ''));
    const { reconciler, journal } = await node.start({ probation }, { clock: steppingClock() });
    await reconciler.put(ipvsBundle, true);
    let asked = 0;
    node.health = () => healthy(asked++);
    const outcome = await reconciler.put(edited(rescheduled), true, arriving(newest));
    expect(outcome.kind).toBe(scheduler === 'wrr' ? 'confirmed' : 'rolled-back');
    const server = (await node.kernel.ipvs.observe()).servers.get('10.96.0.10:80/TCP');
    expect(server?.scheduler).toBe(scheduler);
    expect([...(server?.real.values() ?? [])].filter(({ weight }) => weight > 0).map((one) => one.address)).toEqual([
      '10.244.1.5',
    ]);
    expect(journal.active).toMatchObject(scheduler === 'wrr' ? { number: 2, revision: 1 } : { number: 1, revision: 1 });
  },
);

describe.each(['flat', 'tree'] as const)('layout %s', (layout) => {
  const bundle = (services: Services): BundleFiles => bundleIn('iptables', services);

  test('delays endpoints with rules of a new form until after probation: a rehearsal could outlast the dead-man switch', async () => {
    node = scene();
    node.layout = layout;
    const few: Services = { 'shop/web': [1], 'shop/cart': [3] };
    await (await node.start()).reconciler.put(bundle(few), false);
    const at = steppingClock();
    const { reconciler, journal } = await node.start({ probation }, { clock: at });
    const load = node.kernel.rehearse.bind(node.kernel);
    node.kernel.rehearse = async (state) => {
      if (journal.open) await at.sleep(90_000);
      return load(state);
    };
    // Three endpoints need a probability in a rule, which is a new form.
    const newer = bundle({ ...few, 'shop/new': [6], 'shop/web': [1, 7, 8] });
    expect(await reconciler.put(bundle({ ...few, 'shop/new': [6] }), false, arriving(newer))).toMatchObject({
      kind: 'confirmed',
      generation: { number: 2, revision: 0 },
    });
    expect([node.events.includes('endpoints-not-taken'), endpoints()]).toEqual([true, [1, 3, 6]]);
    expect((await reconciler.put(newer, false)).kind).toBe('confirmed');
    expect(endpoints()).toEqual([1, 3, 6, 7, 8]);
  });

  test('delays rules of a new form for the old program, too: the kernel would first see them in a rollback', async () => {
    node = scene();
    node.layout = layout;
    const few: Services = { 'shop/web': [1], 'shop/gone': [3] };
    await (await node.start()).reconciler.put(bundle(few), false);
    const { reconciler } = await node.start({ probation }, { clock: steppingClock() });
    const without = bundle({ 'shop/web': [1] });
    const newer = bundle({ 'shop/web': [1], 'shop/gone': [3, 7, 8] });
    expect((await reconciler.put(without, false, arriving(newer))).kind).toBe('confirmed');
    expect([node.events.includes('endpoints-not-taken'), endpoints()]).toEqual([true, [1]]);
  });
});

describe.each(dataPlanes)('layout $layout, mode $mode', ({ layout, mode }) => {
  const bundle = (services: Services): BundleFiles => bundleIn(mode, services);
  beforeEach(() => {
    node = scene();
    node.layout = layout;
  });
  const start = async () => {
    node.end();
    node = scene();
    node.layout = layout;
    const first = await node.start({}, { clock: steppingClock() });
    await first.reconciler.put(bundle(old), false);
    return node.start({ probation }, { clock: steppingClock() });
  };

  test('puts an update during probation into the kernel at once and confirms it with the release', async () => {
    const { reconciler, journal } = await start();
    const seen: (readonly number[])[] = [];
    node.health = () => (seen.push(endpoints()), true);
    const newer = bundle({ ...release, 'shop/web': [1, 7] });
    const outcome = await reconciler.put(bundle(release), false, arriving(newer));
    expect(outcome).toMatchObject({ kind: 'confirmed', generation: { number: 2, revision: 1 } });
    expect(seen).toContainEqual([1, 3, 6, 7]);
    expect(endpoints()).toEqual([1, 3, 6, 7]);
    expect(await reconciler.repair()).toBe(0);
    expect((await reconciler.put(newer, false)).kind).toBe('same');
    expect(journal.open).toBeUndefined();
  });

  test('rolls back without blame when the process is stopped, any number of times, and confirms in the next process', async () => {
    await start();
    let rounds = 0;
    node.health = () => (rounds++, true);
    for (let stops = 0; stops <= limits.interruptedMax; stops++) {
      const { reconciler, journal } = await node.start({ probation }, { clock: steppingClock() });
      rounds = 0;
      const outcome = await reconciler.put(bundle(release), false, { ...arriving(), isEnding: () => rounds > 2 });
      expect(outcome).toMatchObject({ kind: 'rolled-back', because: 'sluiced was stopped during probation' });
      expect(endpoints()).toEqual([1, 2, 3]);
      expect(journal.record).toMatchObject({ quarantined: {}, failures: 0, open: null });
    }
    const next = await node.start({ probation }, { clock: steppingClock() });
    expect((await next.reconciler.put(bundle(release), false)).kind).toBe('confirmed');
  });

  test.each([
    ['an update of the release', { ...release, 'shop/web': [1, 7] }, [1, 3, 7]],
    ['two Services', { ...release, 'shop/web': [1, 2, 7], 'shop/cart': [8] }, [1, 2, 7, 8]],
    ['a newer release, which waits', { ...release, 'shop/web': [1, 7], 'shop/other': [5] }, [1, 3, 7]],
    ['more than may change at once', { ...release, 'shop/web': [7, 8], 'shop/cart': [9] }, [1, 2, 9]],
  ])('a release that fails leaves the old one with the newest endpoints: %s', async (_title, services, expected) => {
    const { reconciler, journal } = await start();
    let asked = 0;
    node.health = () => asked++ < 3 || !endpoints().includes(6);
    expect((await reconciler.put(bundle(release), false, arriving(bundle(services)))).kind).toBe('rolled-back');
    expect(endpoints()).toEqual(expected);
    expect(journal.active).toMatchObject({ number: 1, revision: 1 });
    expect(await reconciler.repair()).toBe(0);
    // The next process finds the same state.
    expect(await (await node.start()).reconciler.repair()).toBe(0);
    expect(endpoints()).toEqual(expected);
  });

  test('keeps early endpoints of a release after its rollback, and applies them while it is quarantined', async () => {
    await start();
    const { reconciler, journal } = await node.start({ probation, releasesPerHour: 1 }, { clock: steppingClock() });
    let asked = 0;
    node.health = () => asked++ < 1 || !endpoints().includes(6);
    expect((await reconciler.put(bundle({ ...release, 'shop/web': [1, 7] }), false)).kind).toBe('rolled-back');
    expect(endpoints()).toEqual([1, 3, 7]);
    expect(journal.active).toMatchObject({ number: 1, revision: 1 });
    expect((await reconciler.put(bundle({ ...release, 'shop/web': [7, 8] }), false)).kind).toBe('refused');
    expect(endpoints()).toEqual([3, 7, 8]);
    expect(journal.active).toMatchObject({ number: 1, revision: 2 });
  });

  test.each(['before', 'after'] as const)(
    'after a crash %s any call the next process ends on an intended program, with offered endpoints',
    async (fault) => {
      const newer = bundle({ ...release, 'shop/web': [1, 7] });
      const meant = [
        [1, 2, 3],
        [1, 3, 7],
        [1, 2, 3, 6],
        [1, 3, 6, 7],
      ];
      const met = new Set<string>();
      for (let at = 0; ; at++) {
        await start();
        const countdown = new Countdown(at, fault);
        const plain = await node.start();
        const ports = {
          kernel: mortalKernel(node.kernel, countdown),
          journal: mortalJournal(plain.journal, countdown),
          clock: steppingClock(),
        };
        const mortal = await node.start({ probation }, ports);
        await mortal.reconciler.put(bundle(release), true, arriving(newer)).catch(() => undefined);
        if (countdown.calls <= at) break;
        const next = await node.start();
        await next.reconciler.recover();
        expect(await next.reconciler.repair()).toBe(0);
        expect(meant).toContainEqual(endpoints());
        met.add(endpoints().join());
        node.end();
      }
      // The old release with its own endpoints, the same with the newest, and the new one.
      expect([...met]).toEqual(expect.arrayContaining(['1,2,3', '1,3,7', '1,3,6,7']));
    },
  );

  test('limits releases that fail in an hour, then delays the newest; endpoint updates and manual applies are not limited', async () => {
    let now = 0;
    const at = { now: () => now, bootMs: () => now, sleep: async () => undefined };
    const { reconciler } = await node.start({ releasesPerHour: 2 }, { clock: at });
    expect((await reconciler.put(bundle(old), false)).kind).toBe('confirmed');
    // Between the failures a release is confirmed, so that no back-off begins.
    for (const [round, pod] of [11, 12].entries()) {
      node.health = () => !endpoints().includes(pod);
      expect((await reconciler.put(bundle({ ...old, 'shop/bad': [pod] }), false)).kind).toBe('rolled-back');
      const good = bundle({ ...release, 'shop/good': [20], ...(round > 0 ? { 'shop/more': [21] } : {}) });
      const expected = round === 0 ? 'confirmed' : 'refused';
      expect((await reconciler.put(good, false)).kind).toBe(expected);
    }
    const refused = await reconciler.put(
      bundle({ ...release, 'shop/third': [9], 'shop/fourth': [8], 'shop/web': [1, 7] }),
      false,
    );
    expect(refused.kind === 'refused' && refused.refusal).toMatchObject({
      isWaiting: true,
      problems: [
        {
          code: 'RELEASES_TOO_MANY',
          hint: expect.stringContaining('releases.perHour'),
        },
      ],
    });
    // Its endpoints are in the kernel already.
    expect(endpoints()).toContain(7);
    now += 3_600_001;
    expect(
      (await reconciler.put(bundle({ ...release, 'shop/third': [9], 'shop/fourth': [8], 'shop/web': [1, 7] }), false))
        .kind,
    ).toBe('confirmed');
  });

  test('takes more releases in a short time than the history has, as long as they pass', async () => {
    let now = 0;
    const at = { now: () => (now += 1), bootMs: () => now, sleep: async () => undefined };
    const { reconciler, journal } = await node.start({ releasesPerHour: 1 }, { clock: at });
    const kinds = new Set<string>();
    for (let round = 0; round < limits.historyEntriesMax + 20; round++) {
      const more = round % 2 === 0 ? { 'shop/more': [2] } : {};
      const services = { 'shop/web': [1], ...more, [`shop/new-${round}`]: [1 + (round % 200)] };
      kinds.add((await reconciler.put(bundle(services), false)).kind);
    }
    expect([...kinds]).toEqual(['confirmed']);
    expect(journal.record.history.filter(({ what }) => what === 'confirmed').length).toBeGreaterThan(100);
    expect(now).toBeLessThan(3_600_000);
  }, 60_000);

  test('reports in-kernel once packets meet the change, before rules are read back or slots removed', async () => {
    const seen: string[] = [];
    const report = (event: string, details: Readonly<Record<string, unknown>> = {}): void =>
      void seen.push(event === 'phase' ? String(details['phase']) : event);
    const observe = node.kernel.observeChains.bind(node.kernel);
    node.kernel.observeChains = async (...asked) => {
      seen.push('reads');
      return observe(...asked);
    };
    const { reconciler } = await node.start({}, { report });
    await reconciler.put(bundle(old), false);
    seen.length = 0;
    await reconciler.put(bundle({ ...old, 'shop/web': [1, 7] }), false);
    // A transaction of nft is taken whole or not at all: it is not read back.
    const last = mode === 'nftables' ? ['in-kernel', 'step'] : ['reads', 'in-kernel'];
    // Virtual servers are read back by a call of their own.
    const order = ['stage', 'step', 'verify', ...(mode === 'ipvs' ? ['in-kernel'] : last)];
    const once = seen.filter((one) => order.includes(one)).filter((one, at, all) => one !== all[at - 1]);
    expect(once).toEqual(order);
  });

  test.each([
    ['inside of the network of pods', 12, 'updated'],
    ['at an address that the release has already', 3, 'updated'],
    ['anywhere else', 600, 'confirmed'],
  ] as const)('a new endpoint %s', async (_title, endpoint, what) => {
    const { reconciler, journal } = await node.start({ endpointRanges: ['10.244.0.12/30', 'fd00:10::/64'] });
    await reconciler.put(bundle(old), false);
    // The profile of the sample of mode ipvs names 10.244.0.0/16.
    const elsewhere = (text: string): string => text.replaceAll('10.244.2.101', '172.30.2.101');
    const offered = [...bundle({ ...old, 'shop/web': [1, endpoint] })].map(
      ([path, text]) => [path, elsewhere(text)] as const,
    );
    expect((await reconciler.put(new Map(offered), false)).kind).toBe('confirmed');
    expect(journal.record.history.at(-1)?.what).toBe(what);
  });

  describe('mode manual', () => {
    const manual = { ...probation, seconds: 0, mode: 'manual', decisionSeconds: 60 } as const;

    /** Returns each decision at the first call of `ask` after its time. */
    function saying(at: ReturnType<typeof steppingClock>, ...words: readonly (readonly [number, Decision])[]) {
      const left = [...words];
      const ask = async (): Promise<Decision | undefined> =>
        left[0] && at.now() >= left[0][0] ? left.shift()?.[1] : undefined;
      return { ask, forget: () => undefined, shows: () => undefined };
    }

    test('waits as long as the operator extends it', async () => {
      const at = steppingClock();
      const operator = saying(at, [50_000, { kind: 'extend', seconds: 100 }], [140_000, { kind: 'confirm' }]);
      const { reconciler } = await node.start({ probation: manual }, { clock: at, operator });
      expect((await reconciler.put(bundle(old), false)).kind).toBe('confirmed');
      expect(at.now()).toBeGreaterThanOrEqual(140_000);
    });

    test('ignores a decision that came too late for the previous probation', async () => {
      const at = steppingClock();
      const words: Decision[] = [{ kind: 'confirm' }];
      const { reconciler } = await node.start(
        { probation: manual },
        {
          clock: at,
          operator: { ask: async () => words.shift(), forget: () => void words.splice(0), shows: () => undefined },
        },
      );
      const outcome = await reconciler.put(bundle(old), false);
      expect(outcome).toMatchObject({ kind: 'rolled-back', because: 'not confirmed within 60 s' });
    });
  });

  test('prolongs probation until no probe can fail within its window', async () => {
    const answers: boolean[] = [];
    const answer = (healthy: boolean) => async () => {
      answers.push(healthy);
      return [{ name: 'web', healthy, seen: '' }];
    };
    const probes = {
      policies: [{ name: 'web', failures: 3, window: 5 }],
      intervalMs: 1_000,
      untilVerdict: answer(true),
    };
    const { reconciler } = await node.start(
      { probation: { ...probation, seconds: 0 } },
      { clock: steppingClock(), probes: { ...probes, once: answer(true) } },
    );
    expect((await reconciler.put(bundle(old), false)).kind).toBe('confirmed');
    expect(answers.length).toBe(1 + 3);
  });
});
