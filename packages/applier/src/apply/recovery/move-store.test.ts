import { KernelError } from '../../ports/failure.ts';
import { sysctlKeys } from '@sluice/netfilter';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { FakeKernel } from '../../kernel/fake/fake.fixture.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { type Scene, scene, steppingClock } from '../../testing/scene.fixture.ts';
import { moveStore, type StorePorts } from './move-store.ts';

let node: Scene;
let other: FakeKernel;
beforeEach(() => {
  node = scene();
  other = new FakeKernel({ sysctls: Object.fromEntries(sysctlKeys.map((key) => [key, 0])) });
});
afterEach(() => node.end());

describe.each(['tree', 'flat'] as const)('layout %s', (layout) => {
  /** Both stores of a node that has confirmed a bundle in the first one. */
  async function stores(): Promise<{ readonly from: StorePorts; readonly to: StorePorts; readonly good: string }> {
    node.layout = layout;
    const { reconciler, journal } = await node.start();
    expect(await reconciler.put(sampleBundle({ families: ['ipv4', 'ipv6'] }), true)).toMatchObject({
      kind: 'confirmed',
    });
    const common = { journal, clock: steppingClock(), report: () => undefined, drainMs: 0 };
    return { from: { ...common, kernel: node.kernel }, to: { ...common, kernel: other }, good: rulesIn(node.kernel) };
  }

  const rulesIn = (kernel: FakeKernel): string =>
    (['ipv4', 'ipv6'] as const)
      .flatMap((family) => kernel.save(family).split('\n'))
      .filter((line) => /^(-A|:(KUBE|SLU))/.test(line))
      .join('\n');

  test('loads the rules into the new store before it removes them from the old one', async () => {
    const { from, to, good } = await stores();
    const seen: string[] = [];
    await moveStore(from, to, async () => void seen.push(rulesIn(node.kernel), rulesIn(other)));
    expect(seen).toEqual([good, good]);
    expect([rulesIn(node.kernel), rulesIn(other)]).toEqual(['', good]);
  });

  test.each(['before the new store takes them', 'before it is written down', 'after that'])(
    'a move that crashes %s leaves a store that serves, and the next one finishes',
    async (when) => {
      const { from, to, good } = await stores();
      const fails = (): never => {
        throw new KernelError('the move', 'it ended', 'killed');
      };
      const broken: Record<string, [StorePorts, StorePorts, () => Promise<void>]> = {
        'before the new store takes them': [from, { ...to, kernel: refusing(other) }, async () => undefined],
        'before it is written down': [from, to, async () => fails()],
        'after that': [{ ...from, kernel: refusing(node.kernel) }, to, async () => undefined],
      };
      await expect(moveStore(...broken[when]!)).rejects.toThrow(/it ended|it takes nothing/);
      expect([rulesIn(node.kernel), rulesIn(other)]).toContain(good);
      await moveStore(from, to, async () => undefined);
      expect([rulesIn(node.kernel), rulesIn(other)]).toEqual(['', good]);
    },
  );
});

/** A kernel that can be read and refuses every step. */
function refusing(kernel: FakeKernel): FakeKernel {
  return new Proxy(kernel, {
    get(target, key) {
      if (key === 'apply')
        return () => Promise.reject(new KernelError('iptables-restore', 'it takes nothing', 'refused'));
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}
