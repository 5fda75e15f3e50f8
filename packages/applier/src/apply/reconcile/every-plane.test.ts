import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { planRollbackTo } from '../transaction/roll-back-to.ts';
import { sampleBundle, type SampleServices } from '../../testing/bundle.fixture.ts';
import { endsOf } from '../../testing/packets.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';

/** What a node promises, on every data plane, by where packets end in the kernel that it leaves. */

const planes = [
  { layout: 'tree', mode: 'iptables' },
  { layout: 'flat', mode: 'iptables' },
  { layout: 'tree', mode: 'ipvs' },
  { layout: 'tree', mode: 'nftables' },
] as const;

const web = '10.96.0.11';
const cart = '10.96.0.12';
const at = (...numbers: readonly number[]): readonly string[] =>
  numbers.map((n) => `10.244.0.${n + 1}:8080`).toSorted();
const foreign = '*nat\n:CNI-X - [0:0]\n-A POSTROUTING -s 10.244.0.0/16 -j CNI-X\n-A CNI-X -j RETURN\nCOMMIT\n';

describe.each(planes)('mode $mode, layout $layout', ({ mode, layout }) => {
  let node: Scene;
  let nowMs: number;
  beforeEach(() => {
    node = scene();
    node.layout = layout;
    node.kernel.load('ipv4', foreign);
    nowMs = 0;
  });
  afterEach(() => node.end());

  const bundle = (services: SampleServices) => sampleBundle({ services, mode });
  const started = () =>
    node.start(
      { lastEndpointAfterMs: 10_000 },
      { clock: { now: () => nowMs, bootMs: () => nowMs, sleep: async (ms) => void (nowMs += ms) } },
    );
  const ends = async (address = web) => endsOf(node.kernel, address);
  const both = { 'shop/web': [1, 2], 'shop/cart': [5] };

  test('a release serves its Services, and leaves foreign rules', async () => {
    const { reconciler } = await started();
    expect(await ends()).toEqual(['pass']);
    expect(await reconciler.put(bundle(both), false)).toMatchObject({ kind: 'confirmed' });
    expect([await ends(), await ends(cart)]).toEqual([at(1, 2), at(5)]);
    expect(node.kernel.save('ipv4')).toContain('-j CNI-X');
  });

  test('a release whose probe fails is rolled back, and the Services before are served', async () => {
    const { reconciler } = await started();
    await reconciler.put(bundle(both), false);
    let rounds = 0;
    node.health = () => rounds++ === 0;
    const without = { 'shop/web': [1, 2], 'shop/cart': undefined, 'shop/new': [9] };
    expect(await reconciler.put(bundle(without), false)).toMatchObject({ kind: 'rolled-back' });
    expect([await ends(), await ends(cart), await ends('10.96.0.13')]).toEqual([at(1, 2), at(5), ['pass']]);
  });

  test('rules that another program removed are repaired', async () => {
    const { reconciler } = await started();
    await reconciler.put(bundle(both), false);
    await flush(node);
    expect(await ends()).not.toEqual(at(1, 2));
    expect(await reconciler.repair()).toBeGreaterThan(0);
    expect([await ends(), await ends(cart)]).toEqual([at(1, 2), at(5)]);
    expect(await reconciler.repair()).toBe(0);
  });

  test('other endpoints go in at once, as a revision of the generation', async () => {
    const { reconciler, journal } = await started();
    await reconciler.put(bundle(both), false);
    node.health = () => false;
    expect(await reconciler.put(bundle({ ...both, 'shop/web': [2, 3] }), false)).toMatchObject({ kind: 'confirmed' });
    expect(journal.active).toMatchObject({ number: 1, revision: 1 });
    expect(await ends()).toEqual(at(2, 3));
  });

  test('the last endpoint of a Service goes after its delay', async () => {
    const { reconciler } = await started();
    await reconciler.put(bundle(both), false);
    const without = bundle({ 'shop/web': [1, 2, 3], 'shop/cart': [] });
    expect(await reconciler.put(without, false)).toMatchObject({ kind: 'confirmed', waitsMs: 10_000 });
    expect([await ends(), await ends(cart)]).toEqual([at(1, 2, 3), at(5)]);
    nowMs += 10_000;
    expect(await reconciler.put(without, false)).toMatchObject({ kind: 'confirmed' });
    expect(await ends(cart)).not.toEqual(at(5));
  });

  test('an endpoint at the ClusterIP of another Service is refused, and nothing changes', async () => {
    const { reconciler } = await started();
    await reconciler.put(bundle(both), false);
    const moved = new Map(
      [...bundle(both)].map(([path, text]) => [
        path,
        path.includes('/web.') ? text.replaceAll('10.244.0.2', cart) : text,
      ]),
    );
    expect(await reconciler.put(moved, false)).toMatchObject({
      refusal: { problems: [{ code: 'ADDRESS_FORBIDDEN' }] },
    });
    expect([await ends(), await ends(cart)]).toEqual([at(1, 2), at(5)]);
  });

  test('after a boot the confirmed rules are loaded, not those on probation', async () => {
    const { reconciler } = await started();
    await reconciler.put(bundle(both), false);
    node.kernel.reboot();
    expect(await ends()).toEqual(['pass']);
    const next = await started();
    await next.reconciler.recover();
    await next.reconciler.repair();
    expect([await ends(), await ends(cart)]).toEqual([at(1, 2), at(5)]);
  });

  test('a rollback of an operator brings back the Services before, with the newest endpoints', async () => {
    const { reconciler, journal } = await started();
    await reconciler.put(bundle({ 'shop/web': [1, 2], 'shop/cart': undefined }), false);
    await reconciler.put(bundle(both), false);
    await reconciler.put(bundle({ ...both, 'shop/web': [2, 3] }), false);
    const { target } = planRollbackTo(journal.active, (await journal.generation(1))!, true);
    expect(await reconciler.rollBackTo(target)).toMatchObject({ kind: 'confirmed' });
    expect([await ends(), await ends(cart)]).toEqual([at(2, 3), ['pass']]);
  });

  test('a rollback to generation 0 removes all Services, and leaves foreign rules', async () => {
    const { reconciler, journal } = await started();
    const save = node.kernel.save('ipv4');
    await reconciler.put(bundle(both), false);
    const none = await journal.generation(0);
    expect(none && (await reconciler.rollBackTo(none))).toMatchObject({ kind: 'confirmed' });
    expect(await ends()).toEqual(['pass']);
    expect(node.kernel.save('ipv4')).toBe(save);
  });
});

/** Another program removes what leads packets to endpoints. */
async function flush({ kernel }: Scene): Promise<void> {
  if (await kernel.nft.exists()) return kernel.nft.load('flush map inet sluice svc4\n');
  kernel.ipvs.clear();
  const entry = /^:((?:KUBE|SLUICE)-SERVICES) /m.exec(kernel.save('ipv4'))?.[1];
  kernel.load('ipv4', `*nat\n:${entry} - [0:0]\nCOMMIT\n`);
}
