import { appendFileSync, rmSync } from 'node:fs';
import { sysctlKeys } from '@sluice/netfilter';
import { afterEach, describe, expect, test } from 'vitest';
import { peek } from '../../state/peek.ts';
import { FakeKernel } from '../../kernel/fake/fake.fixture.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { dataPlanes, endpointNumbers, kernelText } from '../../testing/data-plane.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';

let self: Scene = scene();
afterEach(() => self.end());

describe.each(dataPlanes)('layout $layout, mode $mode', ({ layout, mode }) => {
  const bundleOf = (...endpoints: readonly number[]): ReadonlyMap<string, string> =>
    sampleBundle({ services: { 'shop/web': endpoints }, mode });

  /** Generations 1 and 2, and then the disk damages some. */
  async function damage(...numbers: readonly number[]): Promise<void> {
    self = scene();
    self.layout = layout;
    const { reconciler } = await self.start();
    await reconciler.put(bundleOf(1, 2), true);
    await reconciler.put(bundleOf(3, 4), true);
    const kept = peek(self.directory)?.kept ?? [];
    const own = (number: number): readonly string[] =>
      kept.filter((one) => one.number === number).map(({ manifest }) => manifest);
    for (const digest of numbers.flatMap(own)) {
      appendFileSync(`${self.directory}/store/${digest}`, ' ');
      rmSync(`${self.directory}/copies/${digest}`, { force: true });
    }
  }

  const booted = (): FakeKernel => new FakeKernel({ sysctls: Object.fromEntries(sysctlKeys.map((key) => [key, 0])) });
  test.each([
    ['the generation before it', [2], 1, [1, 2]],
    ['the newest that can be read', [2, 1], 0, []],
  ])('after a boot, loads %s instead of a damaged generation', async (_title, damaged, number, endpoints) => {
    await damage(...damaged);
    const kernel = booted();
    const { reconciler, journal } = await self.start({}, { kernel });
    expect(await reconciler.recover()).toMatchObject({
      kind: 'rolled-back',
      because: expect.stringContaining(`generation 2 cannot be read, so generation ${number} is active`),
    });
    await reconciler.repair();
    expect(endpointNumbers(kernel)).toEqual(endpoints);
    expect(journal.halted).toBeUndefined();
    expect(journal.record.history.at(-1)).toMatchObject({ what: 'fell-back', generation: number });
    expect((await self.start()).journal.active?.number, 'the next process finds the same').toBe(number);
    expect(await reconciler.put(bundleOf(3, 4), false), 'the damaged version was no bad one').toMatchObject({
      kind: 'confirmed',
    });
  });

  test('takes the rules in the kernel, where their names tell them, and an older generation elsewhere', async () => {
    await damage(2);
    const before = kernelText(self.kernel);
    const { reconciler, journal } = await self.start();
    const isKnown = layout === 'tree';
    expect(await reconciler.recover()).toMatchObject({
      kind: 'rolled-back',
      because: expect.stringContaining(isKnown ? 'the rules in the kernel are active' : 'generation 1 is active'),
    });
    expect([await reconciler.repair(), journal.halted]).toEqual([0, undefined]);
    expect(kernelText(self.kernel) === before).toBe(isKnown);
    expect(endpointNumbers(self.kernel)).toEqual(isKnown ? [3, 4] : [1, 2]);
    expect((await self.start()).journal.active?.number, 'the next process finds the same').toBe(isKnown ? 2 : 1);
    expect(await reconciler.put(bundleOf(5), false)).toMatchObject({ kind: 'confirmed' });
    expect(endpointNumbers(self.kernel)).toEqual([5]);
    expect(await reconciler.put(bundleOf(3, 4), false), 'nothing foreign is left').toMatchObject({ kind: 'confirmed' });
  });

  test('leaves the rules and halts where they cannot be told from those of a running kube-proxy', async () => {
    await damage(2);
    const before = kernelText(self.kernel);
    self.kubeProxies = [4711];
    const { reconciler, journal } = await self.start();
    expect(await reconciler.recover()).toMatchObject({ kind: layout === 'flat' ? 'held' : 'rolled-back' });
    expect(kernelText(self.kernel)).toBe(before);
    expect(journal.halted === undefined).toBe(layout === 'tree');
  });

  test('takes the next bundle after a boot if no generation can be read', async () => {
    await damage(0, 1, 2);
    const kernel = booted();
    const { reconciler } = await self.start({}, { kernel });
    expect(await reconciler.recover()).toMatchObject({ kind: 'rolled-back' });
    expect(await reconciler.repair()).toBe(0);
    expect(await reconciler.put(bundleOf(3, 4), false)).toMatchObject({ kind: 'confirmed' });
    expect(endpointNumbers(kernel)).toEqual([3, 4]);
  });
});
