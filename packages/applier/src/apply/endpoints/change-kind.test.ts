import { afterEach, expect, test } from 'vitest';
import type { BundleFiles } from '@sluice/bundle';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import type { NodeState } from '../../ports/node-state.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';
import { classify } from './change-kind.ts';

let node: Scene = scene();
afterEach(() => node.end());

const families = ['ipv4', 'ipv6'] as const;
const four = { 'shop/web': [1, 2, 3, 4], 'shop/cart': [9] };
const bundle = (services: Readonly<Record<string, readonly number[]>>, more = {}): BundleFiles =>
  sampleBundle({ services, families, ...more });
const edited = (from: string, to: string): BundleFiles =>
  new Map([...bundle(four)].map(([path, text]) => [path, text.replaceAll(from, to)]));
/** The first endpoints of shop/cart, with other rules. */
const first = (from: string | RegExp, to: string): BundleFiles =>
  new Map(
    [...bundle({ ...four, 'shop/cart': [9, 10, 11] })].map(([path, text]) => [
      path,
      path.includes('/shop/cart.') ? text.replace(from, to) : text,
    ]),
  );
const many = Array.from({ length: 80 }, (_, n) => n + 1);

const changes = [
  ['one more endpoint', four, bundle({ ...four, 'shop/web': [1, 2, 3, 4, 5] }), 'updated'],
  ['half of the endpoints replaced', four, bundle({ ...four, 'shop/web': [1, 2, 7, 8] }), 'updated'],
  ['one of eighty, in groups', { 'shop/web': many }, bundle({ 'shop/web': many.slice(1) }), 'updated'],
  ['two Services at once', four, bundle({ 'shop/web': [1, 2, 3], 'shop/cart': [9, 10] }), 'updated'],
  ['more than half of the endpoints', four, bundle({ ...four, 'shop/web': [1, 6, 7, 8] }), 'confirmed'],
  ['the only endpoint replaced', four, bundle({ ...four, 'shop/cart': [8] }), 'updated'],
  ['the last endpoint removed', four, bundle({ ...four, 'shop/cart': [] }), 'updated'],
  ['the first endpoints', { ...four, 'shop/cart': [] }, bundle({ ...four, 'shop/cart': [9, 10, 11] }), 'updated'],
  [
    'a first and a last endpoint, with other changes',
    { ...four, 'shop/off': [] },
    bundle({ 'shop/web': [1, 2, 3], 'shop/cart': [], 'shop/off': [4] }),
    'updated',
  ],
  ['all of several endpoints removed', four, bundle({ ...four, 'shop/web': [] }), 'updated'],
  ['a Service with one endpoint removed', four, bundle({ 'shop/web': [1, 2, 3, 4] }), 'confirmed'],
  ['a Service without endpoints removed', { ...four, 'shop/off': [] }, bundle(four), 'confirmed'],
  ['a new Service without endpoints', four, bundle({ ...four, 'shop/off': [] }), 'confirmed'],
  [
    'the last endpoint removed and a new Service',
    four,
    bundle({ ...four, 'shop/cart': [], 'shop/new': [5] }),
    'confirmed',
  ],
  [
    'the first endpoint, with another address of the Service',
    { ...four, 'shop/cart': [] },
    edited('10.96.0.12', '10.96.0.99'),
    'confirmed',
  ],
  [
    'the first endpoints, one of them with a tiny probability',
    { ...four, 'shop/cart': [] },
    first(/--probability \S+/, '--probability 0.0000000001'),
    'confirmed',
  ],
  [
    'the first endpoints, and a changed traffic policy',
    { ...four, 'shop/cart': [] },
    first(/-A (KUBE-SVC-\S+) /, '-A $1 -m addrtype --src-type LOCAL -j RETURN\n-A $1 '),
    'confirmed',
  ],
  ['a new Service', four, bundle({ ...four, 'shop/new': [5] }), 'confirmed'],
  ['another port of the endpoints', four, edited(':8080', ':9443'), 'confirmed'],
  ['another port of the Services', four, edited('--dport 80 ', '--dport 81 '), 'confirmed'],
  ['another mark', four, edited('0x4000', '0x8000'), 'confirmed'],
  ['a sysctl', four, bundle(four, { sysctls: ['net.ipv4.conf.all.route_localnet = 1'] }), 'confirmed'],
] as const;
const layouts = ['tree', 'flat'] as const;
const rows = layouts.flatMap((layout) =>
  changes.map(([title, before, after, what]) => ({ title, layout, before, after, what })),
);

test.each(rows)('in layout $layout, $title: $what', async ({ layout, before, after, what }) => {
  node = scene();
  node.layout = layout;
  const { reconciler, journal } = await node.start();
  await reconciler.put(bundle(before), false);
  let asked = 0;
  node.health = () => asked++ >= 0;
  expect(await reconciler.put(after, false)).toMatchObject({ kind: 'confirmed' });
  expect(journal.record.history.at(-1)?.what).toBe(what);
  expect(journal.active).toMatchObject(what === 'updated' ? { number: 1, revision: 1 } : { number: 2, revision: 0 });
  // Only a release has a probation.
  expect(asked > 0).toBe(what === 'confirmed');
  expect(await reconciler.repair()).toBe(0);
  const fresh = scene();
  fresh.layout = layout;
  await (await fresh.start()).reconciler.put(after, false);
  for (const family of families)
    expect(node.kernel.save(family), 'nothing is left behind').toBe(fresh.kernel.save(family));
  fresh.end();
});

test.each(layouts)('in layout %s, a jump of a built-in chain that changes is a release', async (layout) => {
  node = scene();
  node.layout = layout;
  const { reconciler, journal } = await node.start();
  await reconciler.put(bundle(four), false);
  const from = journal.active?.state as NodeState;
  const ipv4 = from.families.ipv4 as NonNullable<NodeState['families']['ipv4']>;
  const nat = { ...ipv4.nat, jumps: ipv4.nat.jumps.slice(1) };
  const desired: NodeState = { ...from, families: { ...from.families, ipv4: { ...ipv4, nat } } };
  expect(classify(from, from)).toEqual({ changeKind: 'endpoints' });
  expect(classify(from, desired)).toEqual({ changeKind: 'release' });
});
