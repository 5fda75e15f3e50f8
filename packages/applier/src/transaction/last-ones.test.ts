import type { BundleFiles } from '@sluice/bundle';
import { afterEach, describe, expect, test } from 'vitest';
import { sampleBundle } from '../testing/bundle.fixture.ts';
import { type Scene, scene } from '../testing/scene.fixture.ts';
import { LastOnes } from './last-ones.ts';

test('the last endpoint of a Service goes when it was offered without one for long enough, without a break', () => {
  let nowMs = 1_000;
  const waiting = new LastOnes(10_000, { bootMs: () => nowMs });
  const at = (ms: number, ...last: readonly string[]): number => {
    nowMs = ms;
    return waiting.waitMs({ last });
  };
  expect(at(1_000, 'web')).toBe(10_000);
  expect(at(4_000, 'web', 'cart'), 'the one that came first decides').toBe(7_000);
  expect(at(5_000, 'cart'), 'it has an endpoint again').toBe(9_000);
  expect(at(14_500, 'cart')).toBe(0);
  expect(at(15_000), 'nothing waits').toBe(0);
  expect(at(16_000, 'cart'), 'it had an endpoint in between').toBe(10_000);
  waiting.forget();
  expect(at(19_000, 'cart'), 'it was forgotten').toBe(10_000);
});

test('a first endpoint waits with last ones only, and no longer than these may, however Services come and go', () => {
  let nowMs = 0;
  const waiting = new LastOnes(10_000, { bootMs: () => nowMs });
  expect(waiting.waitMs({ first: ['new'] })).toBe(0);
  expect(waiting.waitMs({ last: ['pod-0'] })).toBe(10_000);
  for (nowMs = 1_000; nowMs < 11_000; nowMs += 1_000)
    expect(waiting.waitMs({ first: ['new'], last: [`pod-${nowMs}`] })).toBe(11_000 - nowMs);
  expect(waiting.waitMs({ first: ['new'], last: ['pod-11'] })).toBe(0);
});

describe.each(['tree', 'flat'] as const)('a keeper, in layout %s', (layout) => {
  let node: Scene;
  afterEach(() => node.end());

  const bundle = (web: readonly number[], cart: readonly number[]): BundleFiles =>
    sampleBundle({ services: { 'shop/web': web, 'shop/cart': cart }, families: ['ipv4', 'ipv6'] });
  const endpoints = (): readonly string[] =>
    [...new Set(node.kernel.save('ipv4').match(/(?<=--to-destination )\S+/g))].toSorted();

  test('takes other endpoints at once, the last one of a Service later, and the first one at once', async () => {
    node = scene();
    node.layout = layout;
    let nowMs = 0;
    const clock = { now: () => nowMs, bootMs: () => nowMs, sleep: async () => undefined };
    const { keeper, journal } = await node.start({ lastEndpointAfterMs: 10_000 }, { clock });
    await keeper.put(bundle([1, 2], [3]), false);
    const without = bundle([1, 2, 4], []);
    expect(await keeper.put(without, false)).toMatchObject({ kind: 'confirmed', waitsMs: 10_000 });
    expect(endpoints()).toEqual(['10.244.0.2:8080', '10.244.0.3:8080', '10.244.0.4:8080', '10.244.0.5:8080']);
    nowMs = 9_000;
    expect(await keeper.put(without, false)).toMatchObject({ kind: 'same', waitsMs: 1_000 });
    nowMs = 10_000;
    expect(await keeper.put(without, false)).toEqual({
      kind: 'confirmed',
      generation: journal.standing,
      steps: expect.any(Number),
    });
    expect(endpoints()).toEqual(['10.244.0.2:8080', '10.244.0.3:8080', '10.244.0.5:8080']);
    expect(node.kernel.save('ipv4')).toMatch(/-d 10\.96\.0\.12.* -j REJECT/);
    expect((await keeper.put(without, false)).kind).toBe('same');
    expect(await keeper.put(bundle([1, 2, 4], [7]), false)).not.toHaveProperty('waitsMs');
    expect(endpoints()).toContain('10.244.0.8:8080');
    expect(node.kernel.save('ipv4')).not.toContain('REJECT');
    expect(journal.standing).toMatchObject({ number: 1, revision: 3 });
  });

  test('takes a first endpoint while others wait for their last one, though there is always one that does', async () => {
    node = scene();
    node.layout = layout;
    let nowMs = 0;
    const clock = { now: () => nowMs, bootMs: () => nowMs, sleep: async () => undefined };
    const { keeper } = await node.start({ lastEndpointAfterMs: 10_000 }, { clock });
    const offered = (web: readonly number[], cart: readonly number[], fresh: readonly number[]): BundleFiles =>
      sampleBundle({ services: { 'shop/web': web, 'shop/cart': cart, 'shop/new': fresh }, families: ['ipv4', 'ipv6'] });
    await keeper.put(offered([1], [3], []), false);
    expect(await keeper.put(offered([], [3], []), false)).toMatchObject({ waitsMs: 10_000 });
    nowMs = 6_000;
    expect(await keeper.put(offered([], [3], [7]), false)).toMatchObject({ waitsMs: 4_000 });
    nowMs = 9_000;
    expect(await keeper.put(offered([1], [], [7]), false)).toMatchObject({ waitsMs: 7_000 });
    nowMs = 15_000;
    expect(await keeper.put(offered([], [3], [7]), false)).toMatchObject({ waitsMs: 1_000 });
    nowMs = 16_000;
    expect(await keeper.put(offered([], [3], [7]), false)).not.toHaveProperty('waitsMs');
    expect(endpoints()).toEqual(['10.244.0.4:8080', '10.244.0.8:8080']);
  });

  test('counts anew after a bundle in between that was not taken, was only rehearsed, or that a person asked for', async () => {
    node = scene();
    node.layout = layout;
    let nowMs = 0;
    const clock = { now: () => nowMs, bootMs: () => nowMs, sleep: async () => undefined };
    const { keeper, journal } = await node.start({ lastEndpointAfterMs: 10_000 }, { clock });
    const without = bundle([1, 2], []);
    const failing = sampleBundle({ services: { 'shop/web': [1, 2], 'shop/cart': [3], 'shop/new': [5] } });
    await keeper.put(bundle([1, 2], [3]), false);
    node.health = () => journal.open === undefined;
    expect(await keeper.put(failing, false)).toMatchObject({ kind: 'rolled-back' });
    const between = [
      () => keeper.put(failing, false),
      () => keeper.put(new Map(), false),
      () => keeper.rehearse(failing),
      () => keeper.put(bundle([1, 2], [3]), true),
    ];
    for (const [at, other] of between.entries()) {
      nowMs = at * 100_000;
      expect(await keeper.put(without, false)).toMatchObject({ waitsMs: 10_000 });
      await other();
      nowMs += 30_000;
      expect(await keeper.put(without, false)).toMatchObject({ waitsMs: 10_000 });
      await keeper.put(bundle([1, 2], [3]), false);
    }
  });

  test('takes it at once when a person asks, and with a release', async () => {
    node = scene();
    node.layout = layout;
    const { keeper, journal } = await node.start({ lastEndpointAfterMs: 10_000 });
    await keeper.put(bundle([1, 2], [3]), false);
    expect(await keeper.put(bundle([1, 2], []), true)).not.toHaveProperty('waitsMs');
    await keeper.put(bundle([1, 2], [3]), false);
    const more = sampleBundle({
      services: { 'shop/web': [1, 2], 'shop/cart': [], 'shop/new': [5] },
      families: ['ipv4', 'ipv6'],
    });
    expect(await keeper.put(more, false)).not.toHaveProperty('waitsMs');
    expect(journal.standing?.number).toBe(2);
  });

  test('takes neither the last one nor the first one from keys for endpoints, so the next pod takes the place of the last one', async () => {
    node = scene();
    node.layout = layout;
    const { keeper } = await node.start();
    const refused = { kind: 'refused', refusal: { problems: [{ code: 'RELEASE_ENDPOINTS_ONLY' }] } };
    await keeper.put(bundle([1, 2], [3]), false);
    expect(await keeper.put(bundle([1, 2, 4], []), false, undefined, true)).toMatchObject(refused);
    expect(await keeper.put(bundle([1, 2, 4], []), true, undefined, true), 'by hand').toMatchObject(refused);
    expect(await keeper.preview(bundle([1, 2, 4], []), true)).toMatchObject(refused.refusal);
    expect(endpoints()).toEqual(['10.244.0.2:8080', '10.244.0.3:8080', '10.244.0.4:8080', '10.244.0.5:8080']);
    expect(await keeper.put(bundle([1, 2, 4], [7]), false, undefined, true)).toMatchObject({ kind: 'confirmed' });
    expect(endpoints()).toEqual(['10.244.0.2:8080', '10.244.0.3:8080', '10.244.0.5:8080', '10.244.0.8:8080']);
    await keeper.put(bundle([1, 2, 4], []), false);
    expect(await keeper.put(bundle([1, 2, 4], [7]), false, undefined, true)).toMatchObject(refused);
  });
});
