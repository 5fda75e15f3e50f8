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
    return waiting.waitMs(last);
  };
  expect(at(1_000, 'web')).toBe(10_000);
  expect(at(4_000, 'web', 'cart'), 'the one that came later decides').toBe(10_000);
  expect(at(11_500, 'web')).toBe(0);
  expect(at(12_000), 'nothing waits').toBe(0);
  expect(at(13_000, 'web'), 'it had an endpoint in between').toBe(10_000);
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
