import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';
import type { Reconciler } from '../reconcile/reconciler.ts';
import { hasLostBpf } from '../admission/kernel-context.ts';

/** Kernels without `-m bpf`, by which layout `tree` recognises hairpin connections. */

const bundle = sampleBundle({ families: ['ipv4', 'ipv6'] });

/** Another endpoint; and a new Service, and one without endpoints, whose rule has a form that was never loaded. */
const others = sampleBundle({ families: ['ipv4', 'ipv6'], services: { 'shop/web': [1, 3] } });
const release = sampleBundle({
  families: ['ipv4', 'ipv6'],
  services: { 'shop/web': [1, 3], 'shop/cart': [7], 'shop/none': [] },
});

let node: Scene;
beforeEach(() => {
  node = scene();
  node.layout = 'tree';
});
afterEach(() => node.end());

const held = (): string => `${node.kernel.save('ipv4')}${node.kernel.save('ipv6')}`;
const endpoints = (): readonly string[] =>
  [...new Set(node.kernel.save('ipv4').match(/(?<=--to-destination )\S+/g))].toSorted();
const chainsOfEndpoints = (): number => held().match(/^:SLU-SEP-/gm)?.length ?? 0;

test('has no chain per endpoint on a kernel with -m bpf', async () => {
  const { reconciler } = await node.start();
  expect((await reconciler.put(bundle, false)).kind).toBe('confirmed');
  expect([chainsOfEndpoints(), held().match(/ -m bpf /g)?.length]).toEqual([0, 4]);
});

test('has a chain per endpoint on a kernel without -m bpf', async () => {
  node.kernel.reboot({ withoutBpf: true });
  const { reconciler } = await node.start();
  expect((await reconciler.put(bundle, false)).kind).toBe('confirmed');
  expect(chainsOfEndpoints()).toBe(4);
});

describe('a kernel that lost -m bpf with an update', () => {
  let reconciler: Reconciler;
  beforeEach(async () => {
    await (await node.start()).reconciler.put(bundle, false);
    node.kernel.reboot({ withoutBpf: true });
    ({ reconciler } = await node.start());
  });

  test('serves all Services after the boot, except hairpin connections, and finds nothing to repair', async () => {
    expect(await reconciler.repair()).toBeGreaterThan(0);
    const after = held();
    node.kernel.reboot({ withoutBpf: false });
    await (await node.start()).reconciler.repair();
    expect(after).toBe(held().replaceAll(/^-A .* -m bpf .*\n/gm, ''));
    node.kernel.reboot({ withoutBpf: true });
    const next = await node.start();
    await next.reconciler.repair();
    expect(await next.reconciler.repair()).toBe(0);
    expect((await next.reconciler.put(bundle, false)).kind).toBe('same');
    expect(hasLostBpf({ journal: next.journal, kernel: node.kernel })).toBe(true);
  });

  test('takes endpoint updates, new forms and releases', async () => {
    await reconciler.repair();
    expect(await reconciler.put(others, false, undefined, true)).toMatchObject({ kind: 'confirmed' });
    expect(endpoints()).toEqual(['10.244.0.2:8080', '10.244.0.4:8080']);
    expect(await reconciler.rehearse(release)).toBe('ready');
    expect((await reconciler.put(release, false)).kind).toBe('confirmed');
    expect([chainsOfEndpoints(), await reconciler.repair()]).toEqual([0, 0]);
    expect(node.events).not.toContain('rolling-back');
  });

  test('rolls back when a release fails', async () => {
    await reconciler.repair();
    const before = held();
    node.health = () => !held().includes('10.244.0.8:8080');
    const services = { 'shop/web': [1, 2], 'shop/cart': [7] };
    const bad = sampleBundle({ families: ['ipv4', 'ipv6'], services });
    expect((await reconciler.put(bad, false)).kind).toBe('rolled-back');
    expect(held()).toBe(before);
  });

  test('gets rules without -m bpf after a cleanup', async () => {
    await reconciler.cleanup();
    expect((await reconciler.put(bundle, false)).kind).toBe('confirmed');
    expect(chainsOfEndpoints()).toBe(4);
  });
});

test('keeps a chain per endpoint on a kernel that gained -m bpf', async () => {
  node.kernel.reboot({ withoutBpf: true });
  await (await node.start()).reconciler.put(bundle, false);
  node.kernel.reboot({ withoutBpf: false });
  const { reconciler } = await node.start();
  expect(await reconciler.repair()).toBeGreaterThan(0);
  expect((await reconciler.put(bundle, false)).kind).toBe('same');
  expect(await reconciler.put(others, false, undefined, true)).toMatchObject({ kind: 'confirmed' });
  expect((await reconciler.put(release, false)).kind).toBe('confirmed');
  expect(chainsOfEndpoints()).toBe(6);
});
