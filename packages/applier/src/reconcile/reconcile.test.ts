import { afterEach, beforeEach, expect, test } from 'vitest';
import { StillDiffers } from '../transaction/restore.ts';
import { sampleBundle } from '../testing/bundle.fixture.ts';
import { type Scene, scene } from '../testing/scene.fixture.ts';

/** What a scan reads when no change of the tables was reported. */

const key = 'net.ipv4.conf.all.route_localnet';
const bundle = sampleBundle({ families: ['ipv4', 'ipv6'], sysctls: [`${key} = 1`] });
const flush = '*nat\n:SLUICE-SERVICES - [0:0]\nCOMMIT\n';

let node: Scene;
let reads = 0;
beforeEach(() => {
  node = scene();
  node.layout = 'tree';
  reads = 0;
  const observe = node.kernel.observe.bind(node.kernel);
  node.kernel.observe = async (families, known, aside) => {
    reads += 1;
    return observe(families, known, aside);
  };
});
afterEach(() => node.end());

test('repairs sysctls without reading unchanged tables', async () => {
  const { reconciler } = await node.start();
  await reconciler.put(bundle, false);
  reads = 0;
  expect([await reconciler.repair(false), reads]).toEqual([0, 0]);
  await node.kernel.apply({ kind: 'set-sysctl', key, value: 0, because: 'another program' });
  expect(await reconciler.repair(false)).toBe(1);
  expect(await node.kernel.readSysctl(key)).toBe(1);
});

test('interrupts a comparison for more urgent work only if the state of the tables is known', async () => {
  const { reconciler } = await node.start();
  await reconciler.put(bundle, false);
  node.kernel.load('ipv4', flush);
  const broken = node.kernel.save('ipv4');
  expect([await reconciler.repair(true, AbortSignal.abort()), node.kernel.save('ipv4')]).toEqual([
    'interrupted',
    broken,
  ]);
  const next = await node.start();
  expect(await next.reconciler.repair(true, AbortSignal.abort()), 'a process that has not looked yet').toBe(1);
});

test('finds unreported changes with the next full comparison', async () => {
  const { reconciler } = await node.start();
  await reconciler.put(bundle, false);
  const good = node.kernel.save('ipv4');
  node.kernel.load('ipv4', flush);
  expect(await reconciler.repair(false)).toBe(0);
  expect(await reconciler.repair(true)).toBe(1);
  expect(node.kernel.save('ipv4')).toBe(good);
});

test('reads the tables if their state is unknown', async () => {
  await (await node.start()).reconciler.put(bundle, false);
  node.kernel.load('ipv4', flush);
  const { reconciler } = await node.start();
  expect(await reconciler.repair(false)).toBe(1);
  expect(reads).toBeGreaterThan(0);
});

test('distinguishes a repair that another program undoes from one that the kernel refuses', async () => {
  const { reconciler } = await node.start();
  await reconciler.put(bundle, false);
  const observe = node.kernel.observe.bind(node.kernel);
  node.kernel.observe = async (families, known) => {
    node.kernel.load('ipv4', flush);
    return observe(families, known);
  };
  await expect(reconciler.repair()).rejects.toThrow(StillDiffers);
  node.kernel.observe = observe;
  node.kernel.load('ipv4', flush);
  node.kernel.apply = async () => Promise.reject(new Error('the payload is refused'));
  await expect(reconciler.repair()).rejects.toThrow('the payload is refused');
});
