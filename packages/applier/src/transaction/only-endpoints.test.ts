import type { BundleFiles } from '@sluice/bundle';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sampleBundle } from '../testing/bundle.fixture.ts';
import { type Scene, scene } from '../testing/scene.fixture.ts';

/** What keys for endpoints have signed: `Keeper.put` with `onlyEndpoints`. */

let node: Scene;
beforeEach(() => {
  node = scene();
  node.layout = 'tree';
});
afterEach(() => node.end());

const families = ['ipv4', 'ipv6'];
const before = { 'shop/web': [1, 2, 3, 4], 'shop/cart': [9] };
const bundle = (services: Readonly<Record<string, readonly number[]>>, more = {}): BundleFiles =>
  sampleBundle({ services, families, ...more });
const edited = (from: string, to: string): BundleFiles =>
  new Map(
    [...bundle({ ...before, 'shop/web': [1, 2, 3, 5] })].map(([path, text]) => [path, text.replaceAll(from, to)]),
  );
const endpoints = (): readonly string[] =>
  [...new Set(node.kernel.save('ipv4').match(/(?<=--to-destination )\S+/g))].toSorted();
const [old, updated] = [
  ['10.244.0.10:8080', '10.244.0.2:8080', '10.244.0.3:8080', '10.244.0.4:8080', '10.244.0.5:8080'],
  ['10.244.0.10:8080', '10.244.0.2:8080', '10.244.0.3:8080', '10.244.0.4:8080', '10.244.0.6:8080'],
];

test('other endpoints go in at once, as a revision of the release that stands', async () => {
  const { keeper, journal } = await node.start();
  await keeper.put(bundle(before), false);
  const after = bundle({ ...before, 'shop/web': [1, 2, 3, 5] });
  expect(await keeper.put(after, false, undefined, true)).toMatchObject({ kind: 'confirmed' });
  expect(journal.standing).toMatchObject({ number: 1, revision: 1 });
  expect(endpoints()).toEqual(updated);
});

test.each([
  ['a Service more', bundle({ ...before, 'shop/web': [1, 2, 3, 5], 'shop/new': [7] }), updated],
  ['a Service that is gone', bundle({ 'shop/web': [1, 2, 3, 5] }), updated],
  ['another port of the endpoints', edited(':8080', ':9443'), old],
  ['another port of the Services', edited('--dport 80 ', '--dport 81 '), updated],
  ['another mark', edited('0x4000', '0x8000'), updated],
  [
    'the same rules in another order',
    edited(
      '-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000\n',
      '-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000\n-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n',
    ),
    updated,
  ],
  ['a sysctl', bundle(before, { sysctls: ['net.ipv4.conf.all.route_localnet = 1'] }), old],
  ['more endpoints at once than go without a trial', bundle({ ...before, 'shop/web': [1, 6, 7, 8] }), old],
] as const)('%s is refused; endpoints of what stands that come with it are taken', async (_title, after, wanted) => {
  const { keeper, journal } = await node.start();
  await keeper.put(bundle(before), false);
  for (const way of ['by itself', 'by hand']) {
    expect(await keeper.put(after, way === 'by hand', undefined, true)).toMatchObject({
      kind: 'refused',
      refusal: { problems: [{ code: 'RELEASE_ENDPOINTS_ONLY' }] },
    });
  }
  expect(await keeper.preview(after, true)).toMatchObject({ problems: [{ code: 'RELEASE_ENDPOINTS_ONLY' }] });
  expect(endpoints()).toEqual(wanted);
  expect(journal.standing?.number).toBe(1);
  expect(await keeper.put(after, false), 'signers of releases may').toMatchObject({ kind: 'confirmed' });
});

test('a node that has nothing yet takes nothing', async () => {
  const { keeper } = await node.start();
  expect(await keeper.put(bundle(before), false, undefined, true)).toMatchObject({ kind: 'refused' });
  expect(endpoints()).toEqual([]);
});
