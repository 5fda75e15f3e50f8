import type { BundleFiles } from '@sluice/bundle';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { dataPlanes, endpointNumbers } from '../../testing/data-plane.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';
import type { SaidByRelease } from './parts.ts';

/** Releases with live endpoints: `Reconciler.withLive`, and `put` with the version of the release. */

const endpointRanges = ['10.244.0.0/16'];
let node: Scene;
afterEach(() => node.end());

describe.each(dataPlanes)('in layout $layout, mode $mode', ({ layout, mode }) => {
  beforeEach(() => {
    node = scene();
    node.layout = layout;
  });
  const of = (services: Readonly<Record<string, readonly number[]>>): BundleFiles => sampleBundle({ services, mode });
  const endpoints = (): readonly number[] => endpointNumbers(node.kernel);

  /** Puts a release with live endpoints in, and tells its version. */
  async function withLive(release: BundleFiles, live: BundleFiles, said: SaidByRelease = {}) {
    const { reconciler, journal } = await node.start({ endpointRanges });
    const made = reconciler.withLive(release).with(live);
    const { version = '' } = made;
    const outcome = await reconciler.put(made.files, false, undefined, false, { version, ...said });
    return { outcome, version, journal, made };
  }

  test('live endpoints are revisions of their release, with its version', async () => {
    const release = of({ 'shop/web': [1, 2], 'shop/cart': [9] });
    const first = await withLive(release, of({ 'shop/web': [3], 'shop/cart': [9] }));
    expect(first.outcome).toMatchObject({ kind: 'confirmed' });
    expect(first.journal.active).toMatchObject({ number: 1, version: first.version });
    expect(endpoints()).toEqual([3, 9]);
    const second = await withLive(release, of({ 'shop/web': [4, 5], 'shop/cart': [9] }));
    expect(second.outcome).toMatchObject({ kind: 'confirmed' });
    expect(second.journal.active).toMatchObject({ number: 1, version: first.version });
    expect(second.journal.active?.revision).toBeGreaterThan(0);
    expect(endpoints()).toEqual([4, 5, 9]);
    expect((await withLive(release, of({ 'shop/web': [4, 5], 'shop/cart': [9] }))).outcome.kind).toBe('same');
  });

  test('other endpoints do not make another version of a release that was rolled back', async () => {
    await withLive(of({ 'shop/web': [1, 2] }), of({ 'shop/web': [1, 2] }));
    const release = of({ 'shop/web': [1, 2], 'shop/new': [7] });
    let rounds = 0;
    node.health = () => ++rounds < 2;
    const failed = await withLive(release, of({ 'shop/web': [1, 2], 'shop/new': [7] }));
    expect(failed.outcome.kind).toBe('rolled-back');
    node.health = () => true;
    const again = await withLive(release, of({ 'shop/web': [1, 4], 'shop/new': [8] }));
    expect(again.outcome).toMatchObject({ kind: 'refused', refusal: { problems: [{ code: 'BUNDLE_QUARANTINED' }] } });
    expect(endpoints()).toEqual([1, 4]);
  });

  test('endpoints go in while their release waits, and nothing else', async () => {
    await withLive(of({ 'shop/web': [1, 2, 3, 4], 'shop/cart': [9] }), of({ 'shop/web': [1, 2, 3, 4] }));
    const release = of({ 'shop/web': [1, 2, 3, 4], 'shop/cart': [9], 'shop/new': [7] });
    const live = of({ 'shop/web': [1], 'shop/cart': [10], 'shop/new': [8] });
    const { outcome, journal } = await withLive(release, live, { onlyEarly: true });
    expect(outcome).toEqual({ kind: 'refused', refusal: { problems: [], isWaiting: true } });
    expect(endpoints()).toEqual([1, 10]);
    expect(journal.active?.number).toBe(1);
    expect((await withLive(release, live)).outcome.kind).toBe('confirmed');
    expect(endpoints()).toEqual([1, 8, 10]);
  });

  test('what a release says of removals does not count for live endpoints after it', async () => {
    const many = Object.fromEntries(Array.from({ length: 12 }, (_one, at) => [`shop/s${at}`, [at]]));
    const none = Object.fromEntries(Object.keys(many).map((name) => [name, [] as number[]]));
    const release = of(many);
    const { reconciler } = await node.start({ endpointRanges, removals: { share: 0.5, least: 10, holdMs: 60_000 } });
    const endpointsOf = reconciler.withLive(release);
    const { files, version = '' } = endpointsOf.with(of(many));
    await reconciler.put(files, false, undefined, false, { version, acceptsRemoval: true });
    const empty = endpointsOf.with(of(none));
    expect(empty.declined.size).toBe(0);
    expect(await reconciler.put(empty.files, false, undefined, false, { version })).toMatchObject({
      kind: 'refused',
      refusal: { problems: [{ code: 'REMOVAL_HELD' }] },
    });
    expect(endpoints()).toHaveLength(12);
  });
});
