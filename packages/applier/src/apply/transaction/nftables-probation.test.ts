import { afterEach, describe, expect, test } from 'vitest';
import type { BundleFiles } from '@sluice/bundle';
import { ipvsBundle } from '../../../../bundle/src/virtual/bundle.fixture.ts';
import type { ObservedNft } from '../../ports/nftables/observed.ts';
import { cartBundle, cartKey, pod, servedBy, settledElements } from '../../testing/nftables.fixture.ts';
import { type Scene, scene, steppingClock } from '../../testing/scene.fixture.ts';
import type { Offers } from './offers.ts';

/** Mode nftables: newer endpoints for a release on probation; the way to and from mode ipvs. */

let node: Scene = scene();
afterEach(() => node.end());

const probation = { seconds: 5, deadmanSeconds: 30, mode: 'auto', decisionSeconds: 60, sources: [] } as const;

/** Service shop/docs, which a release adds. */
const docs = (...pods: readonly number[]): Readonly<Record<string, string>> => ({
  'shop/docs': [
    'add element inet sluice cluster4 { 10.96.0.77 }',
    'add element inet sluice svc4 { 10.96.0.77 . tcp . 80 : goto n${count} }',
    'add element inet sluice none4 { 10.96.0.77 . tcp . 80 : goto refuse }',
    ...pods.map((n) => `add element inet sluice tcp4 { 10.96.0.77 . 80 . \${slot} : ${pod(n)} }`),
  ]
    .map((line) => `${line}\n`)
    .join(''),
});
const docsKey = '10.96.0.77 . tcp . 80';

/** A bundle that arrives once packets meet the release. */
function arrivingOnProbation(files: BundleFiles): Offers {
  let isLeft = true;
  return {
    arrival: () => (isLeft ? Promise.resolve() : new Promise(() => undefined)),
    look: async () => {
      if (!isLeft || (await node.kernel.switch?.look())?.nat !== 'on') return undefined;
      isLeft = false;
      return { files, onlyEndpoints: false };
    },
  };
}

const seen = async (): Promise<ObservedNft> => (await node.kernel.nft.observe()) as ObservedNft;

async function expectSettled(): Promise<void> {
  const { journal } = await node.start();
  const { held, expected } = await settledElements(node.kernel, journal.active?.state);
  expect(held).toEqual(expected);
}

describe.each([
  ['a Service that the release does not change', cartBundle([1, 2, 3], docs(9))],
  ['a Service that it adds', cartBundle([1, 2], docs(9, 8))],
  ['both', cartBundle([2, 3], docs(8, 9))],
])('newer endpoints of %s, while a release is on probation', (_title, newer) => {
  test.each([true, false])('serve at once, and stay when it is confirmed: %s', async (isGood) => {
    node = scene();
    await (await node.start()).reconciler.put(cartBundle([1, 2]), true);
    let rounds = 0;
    const expected = { cart: servedOf(newer, cartKey), docs: servedOf(newer, docsKey) };
    node.health = () => isGood || ++rounds < 5;
    const report = (event: string): void => void node.events.push(event);
    const { reconciler } = await node.start({ probation }, { clock: steppingClock(), report });
    const offers = arrivingOnProbation(newer);
    const ending = await reconciler.put(cartBundle([1, 2], docs(9)), true, offers);
    expect(ending.kind).toBe(isGood ? 'confirmed' : 'rolled-back');
    expect(node.events).toContain('endpoints-updated');
    const observed = await seen();
    expect(servedBy(observed, cartKey).toSorted()).toEqual(expected.cart);
    expect(servedBy(observed, docsKey).toSorted()).toEqual(isGood ? expected.docs : []);
    await expectSettled();
  });
});

/** The endpoints that a bundle has for a frontend. */
function servedOf(files: BundleFiles, key: string): readonly string[] {
  const [address, , port] = key.split(' . ');
  const name = key === cartKey ? 'cart' : 'docs';
  const text = String(files.get(`profiles/default/services/shop/${name}.nft`));
  const form = new RegExp(`tcp4 \\{ ${address?.replaceAll('.', '\\.')} \\. ${port} \\. \\$\\{slot\\} : (.*) \\}`, 'g');
  return [...text.matchAll(form)].map(([, endpoint = '']) => endpoint).toSorted();
}

test('early endpoints go in before their release', async () => {
  node = scene();
  const { reconciler, journal } = await node.start();
  await reconciler.put(cartBundle([1, 2]), true);
  expect(await reconciler.put(cartBundle([1, 2, 3], docs(9)), false)).toMatchObject({ kind: 'confirmed' });
  expect(journal.record.history.map(({ what }) => what)).toEqual(['first-run', 'confirmed', 'updated', 'confirmed']);
  await expectSettled();
});

describe('modes ipvs and nftables', () => {
  test('the new data plane comes before the old one goes, both ways', async () => {
    node = scene();
    const { reconciler } = await node.start();
    await reconciler.put(ipvsBundle, true);
    const bound = async (): Promise<boolean> => (await node.kernel.ipvs.observe()).bound !== undefined;
    expect(await bound()).toBe(true);
    expect(await reconciler.put(cartBundle([1, 2]), true)).toMatchObject({ kind: 'confirmed' });
    expect([await bound(), await node.kernel.nft.exists()]).toEqual([false, true]);
    await expectSettled();
    expect(await reconciler.put(ipvsBundle, true)).toMatchObject({ kind: 'confirmed' });
    expect([await bound(), await node.kernel.nft.exists()]).toEqual([true, false]);
    expect(await reconciler.differences()).toEqual([]);
  });

  test('connections that IPVS forwards go on while the table is on probation, also when endpoints arrive', async () => {
    node = scene();
    await (await node.start()).reconciler.put(ipvsBundle, true);
    const steps: number[] = [];
    const { ipvs } = node.kernel;
    node.health = () => steps.push(ipvs.taken.length) > 0;
    const report = (event: string): void => void node.events.push(event);
    const { reconciler } = await node.start({ probation }, { clock: steppingClock(), report });
    const newer = [{ files: cartBundle([1, 2, 3]), onlyEndpoints: false }];
    const offers: Offers = {
      arrival: () => (newer.length > 0 ? Promise.resolve() : new Promise(() => undefined)),
      look: async () => newer.shift(),
    };
    expect(await reconciler.put(cartBundle([1, 2]), true, offers)).toMatchObject({ kind: 'confirmed' });
    expect(node.events).toContain('endpoints-updated');
    expect(steps.length).toBeGreaterThan(2);
    expect(new Set(steps).size).toBe(1);
    expect((await ipvs.observe()).servers.size).toBe(0);
  });

  test.each([
    ['from ipvs', ipvsBundle, cartBundle([1, 2])],
    ['to ipvs', cartBundle([1, 2]), ipvsBundle],
  ])('a failing probe rolls back the way %s', async (_title, before, after) => {
    node = scene();
    await (await node.start()).reconciler.put(before, true);
    let rounds = 0;
    node.health = () => ++rounds < 2;
    const { reconciler } = await node.start();
    expect(await reconciler.put(after, true)).toMatchObject({ kind: 'rolled-back' });
    expect(await reconciler.differences()).toEqual([]);
    expect(await node.kernel.nft.exists()).toBe(before !== ipvsBundle);
    expect((await node.kernel.ipvs.observe()).servers.size > 0).toBe(before === ipvsBundle);
  });
});
