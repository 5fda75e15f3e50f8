import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { sysctlKeys } from '@sluice/netfilter';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { slotBytes } from '../../state/slots.ts';
import { FakeKernel } from '../../kernel/fake/fake.fixture.ts';
import type { Probes } from '../../ports/probes.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { dataPlanes, kernelText } from '../../testing/data-plane.fixture.ts';
import { Countdown, mortalJournal, mortalKernel } from '../../testing/faults.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';

const families = ['ipv4', 'ipv6'];
type Mode = (typeof dataPlanes)[number]['mode'];
const firstOf = (mode: Mode) => sampleBundle({ services: { 'shop/web': [1, 2], 'shop/cart': [3] }, families, mode });
const secondOf = (mode: Mode) =>
  sampleBundle({ services: { 'shop/web': [4, 5], 'shop/cart': [], 'shop/new': [6] }, families, mode });

let node: Scene;
afterEach(() => node.end());

const journalFile = (): string => `${node.directory}/journal`;
/** Ways to lose a journal. */
let lose: () => void;
const damage = (): void => lose();
const journalText = (): string | undefined =>
  existsSync(journalFile()) ? readFileSync(journalFile(), 'latin1') : undefined;
const overwrite = (): void => writeFileSync(journalFile(), 'x'.repeat(2 * slotBytes));
const remove = (): void => rmSync(journalFile());
const rules = (kernel = node.kernel): string => kernelText(kernel);
const booted = (): FakeKernel => new FakeKernel({ sysctls: Object.fromEntries(sysctlKeys.map((key) => [key, 0])) });

describe.each(
  dataPlanes.flatMap((plane) => [
    { ...plane, how: 'both slots damaged', way: overwrite },
    { ...plane, how: 'the file deleted', way: remove },
  ]),
)('a lost journal, $how, in layout $layout, mode $mode', ({ layout, mode, way }) => {
  const [one, two] = [firstOf(mode), secondOf(mode)];
  beforeEach(() => {
    lose = way;
    node = scene();
    node.layout = layout;
  });

  test('makes the generation in the kernel active without touching its rules', async () => {
    const { reconciler } = await node.start();
    await reconciler.put(one, false);
    await reconciler.put(two, false);
    const before = rules();
    const steps = node.kernel.taken.length;
    damage();
    const next = await node.start();
    expect(await next.reconciler.recover()).toMatchObject({
      kind: 'rolled-back',
      because: expect.stringContaining('generation 2, the one in the kernel, is active'),
    });
    expect(await next.reconciler.repair()).toBe(0);
    // Which real servers drain is in the journal: they go, for they have no connections here.
    const drained = mode === 'ipvs' ? 1 : 0;
    expect([rules(), node.kernel.taken.length]).toEqual([before, steps + drained]);
    expect((await next.reconciler.put(two, false)).kind, 'its version is known').toBe('same');
    expect((await node.start()).journal.active?.number, 'the next process reads it').toBe(2);
  });

  test('retries a transient failure with the next recovery', async () => {
    await (await node.start()).reconciler.put(one, false);
    damage();
    let asked = 0;
    const kernel = new Proxy(node.kernel, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key, target);
        if (typeof value !== 'function') return value;
        if (key === 'observe' && asked++ === 0) return () => Promise.reject(new Error('the lock is held'));
        return value.bind(target) as unknown;
      },
    });
    const next = await node.start({}, { kernel });
    await expect(next.reconciler.recover()).rejects.toThrow('the lock is held');
    expect(next.journal.halted).toBeDefined();
    expect(await next.reconciler.repair()).toBe(0);
    expect([next.journal.halted, next.journal.active?.number]).toEqual([undefined, 1]);
  });

  test('loads the last confirmed generation after a boot, not the one in probation', async () => {
    const { reconciler } = await node.start();
    await reconciler.put(one, false);
    const before = rules();
    const { probes, probed } = hanging();
    const second = await node.start({}, { probes });
    void second.reconciler.put(two, false);
    await probed;
    damage();
    const kernel = booted();
    const next = await node.start({}, { kernel });
    expect(await next.reconciler.recover()).toMatchObject({
      because: expect.stringContaining('generation 1, the last confirmed one, is active'),
    });
    await next.reconciler.repair();
    expect(rules(kernel)).toBe(before);
  });

  test.each([
    ['rules that no generation has', () => strange(layout, mode)],
    [
      'a store that holds no generation',
      () => ['store', 'copies'].forEach((name) => rmSync(`${node.directory}/${name}`, { recursive: true })),
    ],
  ] as const)('changes nothing and stays halted with %s in the kernel or on the disk', async (_title, change) => {
    const { reconciler } = await node.start();
    await reconciler.put(one, false);
    await change();
    damage();
    const [before, file] = [rules(), journalText()];
    const next = await node.start();
    expect(await next.reconciler.recover()).toMatchObject({
      kind: 'held',
      because: expect.stringMatching(/both slots of|is missing, but/),
    });
    expect(await next.reconciler.repair()).toBe(0);
    expect(await next.reconciler.put(two, false)).toMatchObject({ kind: 'held' });
    expect(await next.reconciler.cleanup()).toBe(0);
    expect([rules(), journalText()]).toEqual([before, file]);
    expect(existsSync(`${journalFile()}.damaged`)).toBe(false);
  });

  test('ends on the old or the new rules, or unchanged, wherever a change was when the journal was lost', async () => {
    const { reconciler } = await node.start();
    await reconciler.put(one, false);
    const old = rules();
    await reconciler.put(two, false);
    const fresh = rules();
    node.end();
    const endings = new Set<string>();
    for (let at = 0; ; at++) {
      node = scene();
      node.layout = layout;
      await (await node.start()).reconciler.put(one, false);
      const countdown = new Countdown(at, 'after');
      const first = await node.start();
      const journal = mortalJournal(first.journal, countdown);
      const mortal = await node.start({}, { kernel: mortalKernel(node.kernel, countdown), journal });
      await mortal.reconciler.put(two, false).catch(() => undefined);
      if (countdown.calls <= at) break;
      const left = rules();
      damage();
      const next = await node.start();
      const outcome = await next.reconciler.recover();
      await next.reconciler.repair();
      expect([old, fresh, ...(outcome?.kind === 'held' ? [left] : [])], `call ${at}`).toContain(rules());
      endings.add(`${outcome?.kind} ${rules() === old ? 'old' : rules() === fresh ? 'new' : 'as it was'}`);
      node.end();
    }
    expect(endings).toContain('rolled-back old');
    expect(endings).toContain('rolled-back new');
  });
});

/** A process that hangs once its release is in probation. */
function hanging(): { probes: Probes; probed: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  const once = (): Promise<never> => {
    resolve();
    return new Promise(() => undefined);
  };
  return { probes: { policies: [], intervalMs: 1000, once, untilVerdict: async () => [] }, probed: promise };
}

/** Another program changes a rule of ours, or an element. */
async function strange(layout: 'flat' | 'tree', mode: Mode): Promise<void> {
  const chain = layout === 'flat' ? 'KUBE-SERVICES' : 'SLUICE-SERVICES';
  if (mode === 'nftables') await node.kernel.nft.load('delete element inet sluice svc4 { 10.96.0.11 . 6 . 80 }\n');
  else node.kernel.load('ipv4', `*nat\n:${chain} - [0:0]\n-A ${chain} -j RETURN\nCOMMIT\n`);
}
