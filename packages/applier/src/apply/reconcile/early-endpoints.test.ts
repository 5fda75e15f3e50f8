import type { BundleFiles } from '@sluice/bundle';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { limits } from '../../limits.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { dataPlanes, endpointNumbers } from '../../testing/data-plane.fixture.ts';
import { refusingKernel } from '../../testing/faults.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';

/** Endpoints of a release that stay although it is rolled back. */

type Services = Readonly<Record<string, readonly number[]>>;
const active: Services = { 'shop/web': [1, 2], 'shop/cart': [3], 'shop/off': [] };

/** A line that leads packets to a Service with port 80, or in modes ipvs and nftables to one of its endpoints. */
const frontendLine =
  /^(?:-A KUBE-SERVICES .* -j KUBE-SVC-\S+|add element .* \. 80 .*|-[aA] -t \S+:80 .*|add KUBE-CLUSTER-IP .*)\n/gm;
const atPort81 = (text: string): string =>
  text
    .replaceAll('--dport 80 ', '--dport 81 ')
    .replaceAll(' . 80 ', ' . 81 ')
    .replaceAll(/( -t \S+:)80 /g, '$181 ')
    .replaceAll(/^(add KUBE-CLUSTER-IP \S+,tcp:)80$/gm, '$181');

describe.each(dataPlanes)('in layout $layout, mode $mode', ({ layout, mode }) => {
  const bundle = (services: Services): BundleFiles => sampleBundle({ services, families: ['ipv4', 'ipv6'], mode });
  /** A release with a new Service. */
  const release = (services: Services): BundleFiles => bundle({ ...active, ...services, 'shop/more': [9] });
  let node: Scene;
  beforeEach(() => {
    node = scene();
    node.layout = layout;
  });
  afterEach(() => node.end());
  const endpoints = (): readonly number[] => endpointNumbers(node.kernel);

  test('applies a first endpoint before the release and keeps it after a rollback', async () => {
    const { reconciler, journal } = await node.start();
    await reconciler.put(bundle(active), false);
    node.health = () => journal.active?.revision !== 1 || journal.open === undefined;
    expect(await reconciler.put(release({ 'shop/off': [7], 'shop/web': [1, 5] }), false)).toMatchObject({
      kind: 'rolled-back',
    });
    expect(journal.active).toMatchObject({ number: 1, revision: 1 });
    expect(endpoints()).toEqual([1, 3, 5, 7]);
    expect(await reconciler.repair()).toBe(0);
    expect(
      await (await node.start()).reconciler.put(bundle({ ...active, 'shop/off': [7], 'shop/web': [1, 5] }), false),
    ).toMatchObject({ kind: 'confirmed', generation: { number: 1, revision: 2 } });
  });

  test('applies first endpoints while a failed release is quarantined or delayed', async () => {
    const { reconciler, journal } = await node.start({ releasesPerHour: 1 });
    await reconciler.put(bundle(active), false);
    node.health = () => journal.open === undefined;
    const failing = release({});
    expect(await reconciler.put(failing, false)).toMatchObject({ kind: 'rolled-back' });
    expect(await reconciler.put(failing, false), 'quarantined').toMatchObject({ kind: 'refused' });
    expect(await reconciler.put(release({ 'shop/off': [7] }), false), 'the limit of releases per hour').toMatchObject({
      kind: 'refused',
    });
    expect(endpoints()).toEqual([1, 2, 3, 7]);
    expect(await reconciler.put(release({ 'shop/off': [7, 8] }), false)).toMatchObject({ kind: 'refused' });
    expect(endpoints()).toEqual([1, 2, 3, 7, 8]);
    expect(journal.active).toMatchObject({ number: 1, revision: 2 });
    expect(await reconciler.repair()).toBe(0);
  });

  test('applies first endpoints after other early endpoints and reverts none of these', async () => {
    const { reconciler, journal } = await node.start();
    await reconciler.put(bundle(active), false);
    node.health = () => journal.open === undefined;
    await reconciler.put(release({}), false);
    for (const pod of [5, 6]) await reconciler.put(release({ 'shop/cart': [pod] }), false);
    expect(endpoints()).toEqual([1, 2, 6]);
    await reconciler.put(release({ 'shop/cart': [6], 'shop/off': [7] }), false);
    expect(endpoints()).toEqual([1, 2, 6, 7]);
    expect(journal.active).toMatchObject({ number: 1, revision: 3 });
  });

  test('uses no stale files: a Service with a new port in the release keeps its newest endpoints', async () => {
    const { reconciler, journal } = await node.start();
    await reconciler.put(bundle(active), false);
    node.health = () => journal.open === undefined;
    // One more frontend of shop/cart.
    const wider = (services: Services): BundleFiles =>
      new Map(
        [...release(services)].map(([path, text]) => [
          path,
          path.includes('/shop/cart.') ? text.replaceAll(frontendLine, (line) => `${line}${atPort81(line)}`) : text,
        ]),
      );
    await reconciler.put(wider({}), false);
    await reconciler.put(wider({ 'shop/cart': [5] }), false);
    expect(endpoints(), 'its endpoints are taken').toEqual([1, 2, 5]);
    await reconciler.put(wider({ 'shop/cart': [5], 'shop/off': [7] }), false);
    expect(endpoints()).toEqual([1, 2, 5]);
    expect(await reconciler.repair()).toBe(0);
  });

  test('keeps last endpoints until the release is in', async () => {
    const { reconciler, journal } = await node.start();
    await reconciler.put(bundle(active), false);
    node.health = () => journal.open === undefined;
    await reconciler.put(release({}), false);
    await reconciler.put(release({ 'shop/off': [7], 'shop/cart': [] }), false);
    expect(endpoints()).toEqual([1, 2, 3, 7]);
    node.health = () => true;
    expect(await reconciler.put(release({ 'shop/off': [7], 'shop/cart': [] }), true)).toMatchObject({
      kind: 'confirmed',
    });
    expect(endpoints()).toEqual([1, 2, 7, 9]);
  });

  test('skips Services whose address or port the release changes, and applies the others', async () => {
    const { reconciler, journal } = await node.start();
    const off = { ...active, 'shop/dark': [] };
    await reconciler.put(bundle(off), false);
    node.health = () => journal.open === undefined;
    const offered = bundle({ ...off, 'shop/off': [7], 'shop/dark': [8] });
    const moved = new Map([...offered].map(([path, text]) => [path, path.includes('dark') ? atPort81(text) : text]));
    expect(await reconciler.put(moved, false)).toMatchObject({ kind: 'rolled-back' });
    expect(endpoints()).toEqual([1, 2, 3, 7]);
  });

  test('does not search a release that changes very many Services for first endpoints', async () => {
    const many = (pod: number): Services =>
      Object.fromEntries(Array.from({ length: limits.firstEndpointServicesMax }, (_, n) => [`many/web-${n}`, [pod]]));
    const { reconciler, journal } = await node.start();
    await reconciler.put(bundle({ ...many(1), ...active }), false);
    node.health = () => journal.open === undefined;
    await reconciler.put(bundle({ ...many(2), ...active, 'shop/off': [7], 'shop/more': [9] }), false);
    expect(endpoints()).toEqual([1, 2, 3]);
    expect(journal.active, 'other endpoints are applied').toMatchObject({ number: 1, revision: 1 });
  });

  test('applies no first endpoints for keys for endpoints', async () => {
    const { reconciler, journal } = await node.start();
    await reconciler.put(bundle(active), false);
    node.health = () => journal.open === undefined;
    const failing = release({ 'shop/web': [1] });
    await reconciler.put(failing, false);
    const offered = release({ 'shop/off': [7], 'shop/web': [1, 6] });
    expect(await reconciler.put(offered, false, undefined, true)).toMatchObject({ kind: 'refused' });
    expect(endpoints()).toEqual([1, 3, 6]);
  });

  test('does not retry a refused first endpoint at every scan, and does not delay the release', async () => {
    const clock = { now: () => node.nowMs, bootMs: () => node.nowMs, sleep: async () => undefined };
    const kernel = refusingKernel(node.kernel, '10.244.0.8');
    const { reconciler, journal } = await node.start({}, { kernel, clock });
    await reconciler.put(bundle(active), false);
    const refused = release({ 'shop/off': [7] });
    expect(await reconciler.put(refused, false)).toMatchObject({ kind: 'rolled-back' });
    const tries = journal.record.history.length;
    for (let scan = 0; scan < 130; scan++) {
      node.nowMs += limits.scanIntervalMsDefault;
      expect(await reconciler.put(refused, false)).toMatchObject({ kind: 'refused' });
      await reconciler.repair(false);
    }
    expect(journal.record.history.length).toBe(tries);
    expect(await reconciler.put(release({ 'shop/off': [8] }), false)).toMatchObject({ kind: 'confirmed' });
    expect(endpoints()).toEqual([1, 2, 3, 8, 9]);
    expect(journal.record.failures).toBe(0);
  });
});
