import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { StillDiffers } from '../../ports/failure.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { dataPlanes, kernelText } from '../../testing/data-plane.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';

/** What a scan reads when no change of the tables was reported. */

const key = 'net.ipv4.conf.all.route_localnet';

describe.each(dataPlanes.filter(({ layout }) => layout === 'tree'))('in mode $mode', ({ layout, mode }) => {
  const bundle = sampleBundle({ families: ['ipv4', 'ipv6'], sysctls: [`${key} = 1`], mode });
  let node: Scene;
  let reads = 0;
  /** What another program does before each reading of the rules or the table. */
  let meanwhile = async (): Promise<void> => undefined;
  beforeEach(() => {
    node = scene();
    node.layout = layout;
    reads = 0;
    meanwhile = async () => undefined;
    const { kernel } = node;
    const [rules, table] = [kernel.observe.bind(kernel), kernel.nft.observe.bind(kernel.nft)];
    kernel.observe = async (families, known, aside) => {
      if (families.length > 0) await read();
      return rules(families, known, aside);
    };
    kernel.nft.observe = async (aside) => {
      await read();
      return table(aside);
    };
  });
  afterEach(() => node.end());

  async function read(): Promise<void> {
    reads += 1;
    await meanwhile();
  }

  /** Another program removes what leads packets to a Service. */
  const spoil = async (): Promise<void> => {
    if (mode === 'iptables') return node.kernel.load('ipv4', '*nat\n:SLUICE-SERVICES - [0:0]\nCOMMIT\n');
    return node.kernel.nft.load('flush map inet sluice svc4\n');
  };
  const rules = (): string => kernelText(node.kernel);

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
    await spoil();
    const broken = rules();
    expect([await reconciler.repair(true, AbortSignal.abort()), rules()]).toEqual(['interrupted', broken]);
    const next = await node.start();
    expect(await next.reconciler.repair(true, AbortSignal.abort()), 'a process that has not looked yet').toBe(1);
  });

  test('finds unreported changes with the next full comparison', async () => {
    const { reconciler } = await node.start();
    await reconciler.put(bundle, false);
    const good = rules();
    await spoil();
    expect(await reconciler.repair(false)).toBe(0);
    expect(await reconciler.repair(true)).toBe(1);
    expect(rules()).toBe(good);
  });

  test('reads the tables if their state is unknown', async () => {
    await (await node.start()).reconciler.put(bundle, false);
    await spoil();
    const { reconciler } = await node.start();
    expect(await reconciler.repair(false)).toBe(1);
    expect(reads).toBeGreaterThan(0);
  });

  test('distinguishes a repair that another program undoes from one that the kernel refuses', async () => {
    const { reconciler } = await node.start();
    await reconciler.put(bundle, false);
    meanwhile = spoil;
    await expect(reconciler.repair()).rejects.toThrow(StillDiffers);
    meanwhile = async () => undefined;
    await spoil();
    node.kernel.apply = async () => Promise.reject(new Error('the payload is refused'));
    await expect(reconciler.repair()).rejects.toThrow('the payload is refused');
  });
});
