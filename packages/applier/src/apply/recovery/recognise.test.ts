import { rmSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { dataPlanes, kernelText } from '../../testing/data-plane.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';

/** A node that lost its state directory while its rules are in the kernel. */

describe.each(dataPlanes.filter(({ layout }) => layout === 'tree'))('in mode $mode', ({ layout, mode }) => {
  let node: Scene;
  beforeEach(() => {
    node = scene();
    node.layout = layout;
  });
  afterEach(() => node.end());

  const bundle = sampleBundle({ families: ['ipv4', 'ipv6'], mode });
  const newer = sampleBundle({ services: { 'shop/web': [1, 2], 'shop/new': [5] }, families: ['ipv4', 'ipv6'], mode });
  const rules = (): string => kernelText(node.kernel);
  const lose = (): void => rmSync(node.directory, { recursive: true });

  test('makes the rules in the kernel a generation, from which the next bundle is a change', async () => {
    node.kernel.load('ipv4', '*nat\n:CNI-X - [0:0]\n-A CNI-X -j RETURN\n-A POSTROUTING -j CNI-X\nCOMMIT\n');
    expect(await (await node.start()).reconciler.put(bundle, true)).toMatchObject({ kind: 'confirmed' });
    const good = rules();
    lose();
    const refused = await (await node.start()).reconciler.put(bundle, true);
    expect(refused).toMatchObject({
      kind: 'refused',
      refusal: { problems: [{ code: 'NODE_CHAINS_NOT_OURS', hint: expect.stringContaining('sluiced recover') }] },
    });
    const { reconciler } = await node.start();
    expect(await reconciler.recognise()).toMatchObject({ number: 1, version: 'recognised' });
    expect(rules()).toBe(good);
    const next = await node.start();
    expect(next.journal.active).toMatchObject({ number: 1, version: 'recognised' });
    expect(await next.reconciler.repair(), 'the kernel holds it').toBe(0);
    expect(await next.reconciler.put(bundle, true)).toMatchObject({ kind: 'confirmed' });
    expect(next.journal.active?.version).toMatch(/^[0-9a-f]{16}$/);
    expect(rules(), 'the same bundle changes nothing').toBe(good);
    expect(await next.reconciler.put(newer, true)).toMatchObject({ kind: 'confirmed' });
    const later = rules();
    expect(await next.reconciler.put(bundle, true)).toMatchObject({ kind: 'confirmed' });
    expect([later === good, rules()]).toEqual([false, good]);
    expect(await next.reconciler.cleanup()).toBeGreaterThan(0);
    expect(rules(), 'all of it is known to be ours').not.toMatch(/SLU|services4/);
  });

  test('refuses to take over rules while a release is in probation', async () => {
    await (await node.start()).reconciler.put(bundle, true);
    lose();
    await node.kernel.switch?.make([]);
    await node.kernel.switch?.on(30);
    const { reconciler } = await node.start();
    expect(await reconciler.recognise()).toMatchObject({
      problems: [{ message: expect.stringContaining('on probation') }],
    });
    await node.kernel.switch?.off('nat');
    await node.kernel.switch?.off('filter');
    expect(await reconciler.recognise()).toMatchObject({ number: 1 });
  });
});

test.each([
  ['nothing of Sluice', undefined, 'no rules of Sluice'],
  ['rules in layout flat', 'flat', 'no rules of Sluice'],
] as const)('refuses to recover from a kernel with %s', async (_title, layout, why) => {
  const node = scene();
  if (layout) {
    node.layout = layout;
    await (await node.start()).reconciler.put(sampleBundle(), true);
    rmSync(node.directory, { recursive: true });
  }
  const { reconciler, journal } = await node.start();
  expect(await reconciler.recognise()).toMatchObject({ problems: [{ message: expect.stringContaining(why) }] });
  expect(journal.active).toBeUndefined();
  node.end();
});

test.each([
  ['iptables, in layout flat', 'flat', 'iptables'],
  ['ipvs', 'tree', 'ipvs'],
] as const)(
  'in mode %s, where names are those of kube-proxy, the hint leads to takeOver, which keeps the rules',
  async (_title, layout, mode) => {
    const node = scene();
    node.layout = layout;
    const bundle = sampleBundle({ mode });
    expect(await (await node.start()).reconciler.put(bundle, true)).toMatchObject({ kind: 'confirmed' });
    const good = [kernelText(node.kernel), await node.kernel.ipvs.observe()];
    rmSync(node.directory, { recursive: true });
    expect(await (await node.start()).reconciler.put(bundle, true)).toMatchObject({
      refusal: { problems: [{ hint: expect.stringContaining('takeOver: kube-proxy') }] },
    });
    const { reconciler } = await node.start({ takeOver: true });
    expect(await reconciler.put(bundle, true)).toMatchObject({ kind: 'confirmed' });
    expect([kernelText(node.kernel), await node.kernel.ipvs.observe()]).toEqual(good);
    node.end();
  },
);
