import type { BundleFiles } from '@sluice/bundle';
import { afterEach, describe, expect, test } from 'vitest';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { refusingKernel } from '../../testing/faults.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';
import { LastEndpointDelay, type LastEndpointWaits } from './last-endpoint-delay.ts';

test('removes the last endpoint after an uninterrupted delay', () => {
  let nowMs = 1_000;
  const waiting = new LastEndpointDelay(10_000, { bootMs: () => nowMs });
  const at = (ms: number, ...last: readonly string[]): LastEndpointWaits => {
    nowMs = ms;
    return waiting.waits({ last });
  };
  const none = { pending: [], nextMs: 0, togetherMs: 0 };
  expect(at(1_000, 'web')).toEqual({ pending: ['web'], nextMs: 10_000, togetherMs: 10_000 });
  expect(at(4_000, 'web', 'cart')).toEqual({ pending: ['web', 'cart'], nextMs: 7_000, togetherMs: 7_000 });
  expect(at(5_000, 'cart'), 'it has an endpoint again').toEqual({
    pending: ['cart'],
    nextMs: 9_000,
    togetherMs: 9_000,
  });
  expect(at(14_500, 'cart', 'web'), 'one has waited').toEqual({ pending: ['web'], nextMs: 10_000, togetherMs: 0 });
  expect(at(15_000), 'nothing waits').toEqual(none);
  expect(at(16_000, 'cart'), 'it had an endpoint in between').toMatchObject({ nextMs: 10_000 });
  waiting.forget();
  expect(at(19_000, 'cart'), 'it was forgotten').toMatchObject({ nextMs: 10_000 });
});

test('makes a first endpoint wait with last ones in an unsplit bundle, and no longer than their delay', () => {
  let nowMs = 0;
  const waiting = new LastEndpointDelay(10_000, { bootMs: () => nowMs });
  expect(waiting.waits({ first: ['new'] }).togetherMs).toBe(0);
  expect(waiting.waits({ last: ['pod-0'] }).togetherMs).toBe(10_000);
  for (nowMs = 1_000; nowMs < 11_000; nowMs += 1_000)
    expect(waiting.waits({ first: ['new'], last: [`pod-${nowMs}`] }).togetherMs).toBe(11_000 - nowMs);
  expect(waiting.waits({ first: ['new'], last: ['pod-11'] }).togetherMs).toBe(0);
});

test('starts a new delay for a last endpoint after one for a first endpoint', () => {
  let nowMs = 0;
  const waiting = new LastEndpointDelay(10_000, { bootMs: () => nowMs });
  waiting.waits({ first: ['web'], last: ['cart'] });
  nowMs = 10_000;
  expect(waiting.waits({ first: ['web'], last: ['cart'] }).togetherMs).toBe(0);
  nowMs = 15_000;
  expect(waiting.waits({ last: ['web'] })).toEqual({ pending: ['web'], nextMs: 10_000, togetherMs: 10_000 });
});

describe.each(['tree', 'flat'] as const)('a reconciler, in layout %s', (layout) => {
  let node: Scene;
  afterEach(() => node.end());

  const bundle = (web: readonly number[], cart: readonly number[]): BundleFiles =>
    sampleBundle({ services: { 'shop/web': web, 'shop/cart': cart }, families: ['ipv4', 'ipv6'] });
  const endpoints = (): readonly string[] =>
    [...new Set(node.kernel.save('ipv4').match(/(?<=--to-destination )\S+/g))].toSorted();

  test('applies first and other endpoints at once and removes the last one after the delay', async () => {
    node = scene();
    node.layout = layout;
    let nowMs = 0;
    const clock = { now: () => nowMs, bootMs: () => nowMs, sleep: async () => undefined };
    const { reconciler, journal } = await node.start({ lastEndpointAfterMs: 10_000 }, { clock });
    await reconciler.put(bundle([1, 2], [3]), false);
    const without = bundle([1, 2, 4], []);
    expect(await reconciler.put(without, false)).toMatchObject({ kind: 'confirmed', waitsMs: 10_000 });
    expect(endpoints()).toEqual(['10.244.0.2:8080', '10.244.0.3:8080', '10.244.0.4:8080', '10.244.0.5:8080']);
    nowMs = 9_000;
    expect(await reconciler.put(without, false)).toMatchObject({ kind: 'same', waitsMs: 1_000 });
    nowMs = 10_000;
    expect(await reconciler.put(without, false)).toEqual({
      kind: 'confirmed',
      generation: journal.active,
      steps: expect.any(Number),
    });
    expect(endpoints()).toEqual(['10.244.0.2:8080', '10.244.0.3:8080', '10.244.0.5:8080']);
    expect(node.kernel.save('ipv4')).toMatch(/-d 10\.96\.0\.12.* -j REJECT/);
    expect((await reconciler.put(without, false)).kind).toBe('same');
    expect(await reconciler.put(bundle([1, 2, 4], [7]), false)).not.toHaveProperty('waitsMs');
    expect(endpoints()).toContain('10.244.0.8:8080');
    expect(node.kernel.save('ipv4')).not.toContain('REJECT');
    expect(journal.active).toMatchObject({ number: 1, revision: 3 });
  });

  const three = (web: readonly number[], cart: readonly number[], fresh: readonly number[]): BundleFiles =>
    sampleBundle({ services: { 'shop/web': web, 'shop/cart': cart, 'shop/new': fresh }, families: ['ipv4', 'ipv6'] });

  test('applies first endpoints at once while others wait, and removes each last one after its own delay', async () => {
    node = scene();
    node.layout = layout;
    let nowMs = 0;
    const clock = { now: () => nowMs, bootMs: () => nowMs, sleep: async () => undefined };
    const { reconciler, journal } = await node.start({ lastEndpointAfterMs: 10_000 }, { clock });
    await reconciler.put(three([1], [3], []), false);
    const steps = [
      [1_000, three([], [3], []), 'same', 10_000, [2, 4]],
      [4_000, three([], [3], [7]), 'confirmed', 7_000, [2, 4, 8]],
      [5_000, three([], [3], [8]), 'confirmed', 6_000, [2, 4, 9]],
      [6_000, three([], [], [8]), 'same', 5_000, [2, 4, 9]],
      [11_000, three([], [], [8]), 'confirmed', 5_000, [4, 9]],
      [12_000, three([6], [], []), 'confirmed', 4_000, [4, 7, 9]],
      [16_000, three([6], [], []), 'confirmed', 6_000, [7, 9]],
      [22_000, three([6], [], []), 'confirmed', undefined, [7]],
    ] as const;
    for (const [atMs, files, kind, waitsMs, wanted] of steps) {
      nowMs = atMs;
      const outcome = await reconciler.put(files, false);
      expect([outcome.kind, 'waitsMs' in outcome ? outcome.waitsMs : undefined], `at ${atMs}`).toEqual([kind, waitsMs]);
      expect(endpoints(), `at ${atMs}`).toEqual(wanted.map((n) => `10.244.0.${n}:8080`));
      expect(await reconciler.repair()).toBe(0);
    }
    expect(journal.active?.number).toBe(1);
    expect((await (await node.start()).reconciler.put(three([6], [], []), false)).kind).toBe('same');
  });

  test('does not retry refused rules at every scan while a last endpoint waits', async () => {
    node = scene();
    node.layout = layout;
    let nowMs = 0;
    const clock = { now: () => nowMs, bootMs: () => nowMs, sleep: async () => undefined };
    const kernel = refusingKernel(node.kernel, '10.244.0.10:');
    const { reconciler, journal } = await node.start({ lastEndpointAfterMs: 10_000 }, { kernel, clock });
    await reconciler.put(three([1], [3], []), false);
    await reconciler.put(three([], [3], [9]), false);
    const tries = journal.record.history.length;
    for (nowMs = 100; nowMs < 10_000; nowMs += 100) await reconciler.put(three([], [3], [9]), false);
    expect(journal.record.history.length).toBe(tries);
    expect(endpoints()).toEqual(['10.244.0.2:8080', '10.244.0.4:8080']);
    expect(await reconciler.put(three([], [3], [8]), false), 'another one').toMatchObject({ kind: 'confirmed' });
    expect(endpoints()).toEqual(['10.244.0.4:8080', '10.244.0.9:8080']);
  });

  test('restores no endpoint that was replaced during probation', async () => {
    node = scene();
    node.layout = layout;
    let nowMs = 0;
    const sleep = async (ms: number): Promise<void> => {
      nowMs += ms;
      for (let turn = 0; turn < 100; turn++) await Promise.resolve();
    };
    const clock = { now: () => nowMs, bootMs: () => nowMs, sleep };
    const probation = { seconds: 5, deadmanSeconds: 30, mode: 'auto', decisionSeconds: 60, sources: [] } as const;
    const { reconciler, journal } = await node.start({ lastEndpointAfterMs: 10_000, probation }, { clock });
    await reconciler.put(bundle([1], [3]), false);
    const left = [three([1], [5], [])];
    const offers = {
      arrival: () => (left.length > 0 ? Promise.resolve() : new Promise<never>(() => undefined)),
      look: async () => {
        const files = left.shift();
        return files && { files, onlyEndpoints: false };
      },
    };
    // The release adds shop/new; the bundle that arrives lacks part of it.
    const release = sampleBundle({
      services: { 'shop/web': [1], 'shop/cart': [3], 'shop/new': [], 'shop/more': [9] },
      families: ['ipv4', 'ipv6'],
    });
    expect(await reconciler.put(release, false, offers)).toMatchObject({ kind: 'confirmed' });
    expect([journal.active?.revision, endpoints()]).toEqual([1, [10, 2, 6].map((n) => `10.244.0.${n}:8080`)]);
    const next = sampleBundle({
      services: { 'shop/web': [1], 'shop/cart': [], 'shop/new': [7], 'shop/more': [9] },
      families: ['ipv4', 'ipv6'],
    });
    expect(await reconciler.put(next, false)).toHaveProperty('waitsMs');
    expect(endpoints()).toEqual([10, 2, 6].map((n) => `10.244.0.${n}:8080`));
  });

  test('cannot split a bundle after a restart: a first endpoint waits with last ones, no longer than their delay', async () => {
    node = scene();
    node.layout = layout;
    let nowMs = 0;
    const clock = { now: () => nowMs, bootMs: () => nowMs, sleep: async () => undefined };
    await (await node.start()).reconciler.put(three([1], [3], []), false);
    const { reconciler } = await node.start({ lastEndpointAfterMs: 10_000 }, { clock });
    expect(await reconciler.put(three([], [3], []), false)).toMatchObject({ waitsMs: 10_000 });
    nowMs = 6_000;
    expect(await reconciler.put(three([], [3], [7]), false)).toMatchObject({ waitsMs: 4_000 });
    nowMs = 9_000;
    expect(await reconciler.put(three([1], [], [7]), false)).toMatchObject({ waitsMs: 7_000 });
    nowMs = 15_000;
    expect(await reconciler.put(three([], [3], [7]), false)).toMatchObject({ waitsMs: 1_000 });
    nowMs = 16_000;
    expect(await reconciler.put(three([], [3], [7]), false)).not.toHaveProperty('waitsMs');
    expect(endpoints()).toEqual(['10.244.0.4:8080', '10.244.0.8:8080']);
    nowMs = 20_000;
    expect(await reconciler.put(three([], [3], []), false), 'it waited as a first one').toMatchObject({
      waitsMs: 10_000,
    });
    expect(endpoints()).toEqual(['10.244.0.4:8080', '10.244.0.8:8080']);
  });

  test('restarts the delay after a refused, rehearsed or manually applied bundle', async () => {
    node = scene();
    node.layout = layout;
    let nowMs = 0;
    const clock = { now: () => nowMs, bootMs: () => nowMs, sleep: async () => undefined };
    const { reconciler, journal } = await node.start({ lastEndpointAfterMs: 10_000 }, { clock });
    const without = bundle([1, 2], []);
    const failing = sampleBundle({ services: { 'shop/web': [1, 2], 'shop/cart': [3], 'shop/new': [5] } });
    await reconciler.put(bundle([1, 2], [3]), false);
    node.health = () => journal.open === undefined;
    expect(await reconciler.put(failing, false)).toMatchObject({ kind: 'rolled-back' });
    const between = [
      () => reconciler.put(failing, false),
      () => reconciler.put(new Map(), false),
      () => reconciler.rehearse(failing),
      () => reconciler.put(bundle([1, 2], [3]), true),
    ];
    for (const [at, other] of between.entries()) {
      nowMs = at * 100_000;
      expect(await reconciler.put(without, false)).toMatchObject({ waitsMs: 10_000 });
      await other();
      nowMs += 30_000;
      expect(await reconciler.put(without, false)).toMatchObject({ waitsMs: 10_000 });
      await reconciler.put(bundle([1, 2], [3]), false);
    }
  });

  test('removes it at once on a manual apply and with a release', async () => {
    node = scene();
    node.layout = layout;
    const { reconciler, journal } = await node.start({ lastEndpointAfterMs: 10_000 });
    await reconciler.put(bundle([1, 2], [3]), false);
    expect(await reconciler.put(bundle([1, 2], []), true)).not.toHaveProperty('waitsMs');
    await reconciler.put(bundle([1, 2], [3]), false);
    const more = sampleBundle({
      services: { 'shop/web': [1, 2], 'shop/cart': [], 'shop/new': [5] },
      families: ['ipv4', 'ipv6'],
    });
    expect(await reconciler.put(more, false)).not.toHaveProperty('waitsMs');
    expect(journal.active?.number).toBe(2);
  });

  test('refuses first and last endpoints from keys for endpoints, so that the next pod replaces the last one', async () => {
    node = scene();
    node.layout = layout;
    const { reconciler } = await node.start();
    const refused = { kind: 'refused', refusal: { problems: [{ code: 'RELEASE_ENDPOINTS_ONLY' }] } };
    await reconciler.put(bundle([1, 2], [3]), false);
    expect(await reconciler.put(bundle([1, 2, 4], []), false, undefined, true)).toMatchObject(refused);
    expect(await reconciler.put(bundle([1, 2, 4], []), true, undefined, true), 'by hand').toMatchObject(refused);
    expect(await reconciler.preview(bundle([1, 2, 4], []), true)).toMatchObject(refused.refusal);
    expect(endpoints()).toEqual(['10.244.0.2:8080', '10.244.0.3:8080', '10.244.0.4:8080', '10.244.0.5:8080']);
    expect(await reconciler.put(bundle([1, 2, 4], [7]), false, undefined, true)).toMatchObject({ kind: 'confirmed' });
    expect(endpoints()).toEqual(['10.244.0.2:8080', '10.244.0.3:8080', '10.244.0.5:8080', '10.244.0.8:8080']);
    await reconciler.put(bundle([1, 2, 4], []), false);
    expect(await reconciler.put(bundle([1, 2, 4], [7]), false, undefined, true)).toMatchObject(refused);
  });
});
