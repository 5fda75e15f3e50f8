import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { settledElements } from '../../testing/nftables.fixture.ts';
import {
  addresses,
  servedPods,
  serviceProbes,
  serviceText,
  shopBundle,
  startWith,
  told,
} from '../../testing/partial.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';

/** Single Services of a release return to the old rules, the rest stays on probation and is confirmed. */

let node: Scene;
beforeEach(() => {
  node = scene();
});
afterEach(() => node.end());

const before = shopBundle({ cart: [1, 2], docs: [3, 4], web: [5, 6] });
const bad = shopBundle({ cart: [91, 92], docs: [13, 14], web: [15, 16] });

async function expectSettled(): Promise<void> {
  const { journal, reconciler } = await node.start();
  const { held, expected } = await settledElements(node.kernel, journal.active?.state);
  expect(held).toEqual(expected);
  expect(await reconciler.differences()).toEqual([]);
}

test('rolls the Service back whose probe fails, and confirms the rest as a generation of its own', async () => {
  const { reconciler } = await startWith(node);
  expect((await reconciler.put(before, true)).kind).toBe('confirmed');
  const outcome = await reconciler.put(bad, true);
  expect(outcome).toMatchObject({ kind: 'confirmed', generation: { partial: { services: ['shop/cart'] } } });
  expect(await servedPods(node)).toEqual({ cart: '1 2', docs: '13 14', web: '15 16' });
  await expectSettled();
  const { journal } = await node.start();
  expect(told(journal.active)).toBe('2.1 without shop/cart');
  expect(journal.active?.version).not.toBe(journal.active?.partial?.of);
  expect(journal.quarantinedServices).toMatchObject([{ service: 'shop/cart' }]);
});

describe('all of a release is rolled back', () => {
  const gone = shopBundle({ cart: [91, 92], docs: [3, 4], web: [5, 6] });
  test.each([
    ['without the option', bad, {}, undefined],
    ['when every changed Service fails', gone, {}, 'every changed Service fails'],
    [
      'when a probe that names no Service fails, too',
      bad,
      { name: 'door', isHealthy: (round: number) => round < 2 },
      'probe door names no Service',
    ],
    [
      'when the failing probe names a Service that the release does not change',
      bad,
      { name: 'other', service: 'shop/elsewhere', isHealthy: (round: number) => round < 3 },
      'the release does not change shop/elsewhere',
    ],
    [
      'when the Service fails with its old rules, too',
      bad,
      { name: 'again', service: 'shop/cart', isHealthy: (round: number) => round < 3 },
      'shop/cart fails with its old rules, too',
    ],
  ] as const)('%s', async (title, files, more, why) => {
    let round = 0;
    const others = 'name' in more ? [{ ...more, isHealthy: () => more.isHealthy(++round) }] : [];
    const probes = serviceProbes(node, undefined, others);
    const options = title === 'without the option' ? {} : undefined;
    await (await startWith(node)).reconciler.put(before, true);
    const { reconciler, journal } = await startWith(node, probes, {}, options);
    const outcome = await reconciler.put(files, true);
    expect(outcome.kind).toBe('rolled-back');
    expect('because' in outcome && outcome.because.split('by Service: ')[1]).toBe(why);
    expect(await servedPods(node)).toEqual({ cart: '1 2', docs: '3 4', web: '5 6' });
    expect(told(journal.active)).toBe('1.0');
    expect(journal.quarantinedServices).toEqual([]);
    await expectSettled();
  });
});

test('blames no Service whose rules another program removed in probation', async () => {
  const good = shopBundle({ cart: [11, 12], docs: [13, 14], web: [15, 16] });
  const { reconciler: first } = await startWith(node);
  await first.put(before, true);
  const own = serviceProbes(node);
  let isRemoved = false;
  const once = async (): ReturnType<typeof own.once> => {
    const verdicts = node.kernel.nft.list()?.elements.get('tsvc4') ?? new Map<string, string>();
    if (!isRemoved)
      for (const key of verdicts.keys())
        if (key.startsWith(`${addresses.cart} `))
          await node.kernel.nft.load(`delete element inet sluice tsvc4 { ${key} }\n`);
    isRemoved = true;
    return own.once();
  };
  const { reconciler, journal } = await startWith(node, { ...own, once });
  expect(await reconciler.put(good, true)).toMatchObject({ kind: 'rolled-back', again: true });
  expect([isRemoved, journal.quarantinedServices, journal.record.quarantined]).toEqual([true, [], {}]);
  expect(await reconciler.put(good, true)).toMatchObject({ kind: 'confirmed' });
  expect([journal.active?.partial, await servedPods(node)]).toEqual([
    undefined,
    { cart: '11 12', docs: '13 14', web: '15 16' },
  ]);
  await expectSettled();
});

test('rolls a second Service back whose probe fails later, and a Service that the release adds is removed', async () => {
  const { reconciler, journal } = await startWith(node);
  await reconciler.put(shopBundle({ cart: [1, 2], web: [5, 6] }), true);
  let round = 0;
  const probes = serviceProbes(
    node,
    ['cart', 'web'],
    [
      // The Service is new: its own probe fails before and does not count.
      { name: 'docs', service: 'shop/docs', isHealthy: () => ++round < 4 || round > 4 },
    ],
  );
  const next = await startWith(node, probes);
  const outcome = await next.reconciler.put(bad, true);
  expect(outcome).toMatchObject({
    kind: 'confirmed',
    generation: { partial: { services: ['shop/cart', 'shop/docs'] } },
  });
  expect(await servedPods(node)).toEqual({ cart: '1 2', docs: '', web: '15 16' });
  expect(told(journal.active)).toBe('1.0');
  await expectSettled();
});

test('has the same version whenever it is made from the same release, without the same Services', async () => {
  const versions = new Set<string>();
  for (const isFirst of [true, false]) {
    const own = scene();
    const { reconciler, journal } = await startWith(own);
    if (!isFirst) await reconciler.put(shopBundle({ cart: [7], docs: [3], web: [5] }), true);
    await reconciler.put(before, true);
    await reconciler.put(bad, true);
    versions.add(journal.active?.version ?? '');
    own.end();
  }
  expect(versions.size).toBe(1);
});

describe('newer endpoints', () => {
  test('of every Service go in while one Service is rolled back, and stay', async () => {
    await (await startWith(node)).reconciler.put(before, true);
    const newer = shopBundle({ cart: [91, 92], docs: [13, 17], web: [15, 16] });
    let isLeft = true;
    const report = (event: string): void => void node.events.push(event);
    const { reconciler } = await startWith(node, undefined, { report });
    const outcome = await reconciler.put(bad, true, {
      arrival: () => (isLeft ? Promise.resolve() : new Promise(() => undefined)),
      look: async () => {
        if (!node.events.includes('services-rolled-back')) return undefined;
        isLeft = false;
        return { files: newer, onlyEndpoints: false };
      },
    });
    expect(outcome.kind).toBe('confirmed');
    expect(node.events).toContain('endpoints-updated');
    expect(await servedPods(node)).toEqual({ cart: '1 2', docs: '13 17', web: '15 16' });
    await expectSettled();
    const { reconciler: again, journal } = await startWith(node);
    await again.put(newer, false);
    expect(told(journal.active)).toMatch(/^2\.\d without shop\/cart$/);
    expect(await servedPods(node)).toEqual({ cart: '1 2', docs: '13 17', web: '15 16' });
  });

  test('of a partial generation are an endpoint update of it, also those of the Service that was left out', async () => {
    const { reconciler, journal } = await startWith(node);
    await reconciler.put(shopBundle({ cart: [1, 2, 3], docs: [3, 4], web: [5, 6] }), true);
    await reconciler.put(shopBundle({ cart: [91, 92, 93], docs: [13, 14], web: [15, 16] }), true);
    const { version } = journal.active ?? {};
    await reconciler.put(shopBundle({ cart: [91, 92, 93], docs: [13, 18], web: [15, 16] }), false);
    expect(told(journal.active)).toMatch(/^2\.\d without shop\/cart$/);
    expect(journal.active?.version).not.toBe(version);
    expect(await servedPods(node)).toEqual({ cart: '1 2 3', docs: '13 18', web: '15 16' });
    await expectSettled();
  });
});

describe('a quarantined Service', () => {
  const partial = async (): Promise<void> => {
    const { reconciler } = await startWith(node);
    await reconciler.put(before, true);
    await reconciler.put(bad, true);
  };

  test('stays as before in the same release and in later ones, until another version of it comes', async () => {
    await partial();
    const { reconciler, journal } = await startWith(node);
    expect(await reconciler.put(bad, false)).toMatchObject({ kind: 'same', generation: { partial: {} } });
    const later = shopBundle({ cart: [91, 92], docs: [23, 24], web: [15, 16] });
    expect(await reconciler.put(later, false)).toMatchObject({ kind: 'confirmed', generation: { number: 3 } });
    expect(told(journal.active)).toBe('3.0 without shop/cart');
    expect(await servedPods(node)).toEqual({ cart: '1 2', docs: '23 24', web: '15 16' });
    const good = shopBundle({ cart: [31, 32], docs: [23, 24], web: [15, 16] });
    await reconciler.put(good, false);
    expect(told(journal.active)).toBe('4.0');
    expect(await servedPods(node)).toEqual({ cart: '31 32', docs: '23 24', web: '15 16' });
    await expectSettled();
  });

  test('is tried again when an operator lifts its quarantine, or applies the bundle', async () => {
    await partial();
    const { reconciler, journal } = await startWith(node);
    expect(await journal.lift('shop/elsewhere')).toBe(false);
    expect(await journal.lift('shop/cart')).toBe(true);
    expect(await reconciler.put(bad, false)).toMatchObject({ kind: 'rolled-back' });
    const good = await startWith(node, serviceProbes(node, ['docs']));
    await good.reconciler.put(bad, true);
    expect(told(good.journal.active)).toMatch(/^4\.0$/);
    expect(good.journal.quarantinedServices).toEqual([]);
    expect(await servedPods(node)).toEqual({ cart: '91 92', docs: '13 14', web: '15 16' });
  });

  test('is left out although the whole release was rolled back before', async () => {
    await (await startWith(node)).reconciler.put(before, true);
    await (await startWith(node, undefined, {}, {})).reconciler.put(bad, false);
    const { reconciler, journal } = await startWith(node);
    expect(await reconciler.put(bad, false)).toMatchObject({ kind: 'refused' });
    expect(await reconciler.put(bad, true)).toMatchObject({ kind: 'confirmed' });
    expect(await reconciler.put(bad, false)).toMatchObject({ kind: 'same' });
    expect(told(journal.active)).toBe('3.1 without shop/cart');
  });

  test('refuses a bundle in which another Service has a frontend that it would keep', async () => {
    const other = '10.96.0.99';
    const cart = (pods: readonly number[], more: readonly string[] = []): readonly [string, string] => [
      'profiles/default/services/shop/cart.nft',
      serviceText(addresses.cart, pods, more),
    ];
    const second = serviceText(other, [1, 2]).split('\n').filter(Boolean);
    const { reconciler, journal } = await startWith(node);
    await reconciler.put(new Map([...before, cart([1, 2], second)]), true);
    await reconciler.put(new Map([...bad, cart([91, 92])]), true);
    expect(told(journal.active)).toBe('2.1 without shop/cart');
    const taker = ['profiles/default/services/shop/taker.nft', serviceText(other, [8])] as const;
    expect(await reconciler.put(new Map([...bad, cart([91, 92]), taker]), false)).toMatchObject({
      kind: 'refused',
      refusal: {
        problems: [
          {
            code: 'BUNDLE_QUARANTINED',
            message: expect.stringContaining('frontend 10.96.0.99 . tcp . 80 is of shop/cart and of shop/taker'),
          },
        ],
      },
    });
    expect(told(journal.active)).toBe('2.1 without shop/cart');
  });
});

test('a boot loads the partial generation, and a rollback leads from it to the one before, which blocks the release', async () => {
  const { reconciler } = await startWith(node);
  await reconciler.put(before, true);
  await reconciler.put(bad, true);
  const boot = await startWith(node);
  await node.kernel.apply({ kind: 'nft', text: 'delete table inet sluice\n', because: 'a reboot', leadsTo: undefined });
  expect(await boot.reconciler.repair()).toBeGreaterThan(0);
  expect(await servedPods(node)).toEqual({ cart: '1 2', docs: '13 14', web: '15 16' });
  const old = await boot.journal.generation(1);
  if (!old) throw new Error('generation 1 is not kept');
  await boot.reconciler.rollBackTo(old);
  expect(told(boot.journal.active)).toBe('1.0');
  expect(await servedPods(node)).toEqual({ cart: '1 2', docs: '3 4', web: '5 6' });
  expect(await boot.reconciler.put(bad, false)).toMatchObject({
    kind: 'refused',
    refusal: { problems: [{ code: 'BUNDLE_QUARANTINED' }] },
  });
  const back = await boot.journal.generation(2);
  if (!back) throw new Error('generation 2 is not kept');
  await boot.reconciler.rollBackTo(back);
  expect(told(boot.journal.active)).toMatch(/^2\.1 without shop\/cart$/);
});
