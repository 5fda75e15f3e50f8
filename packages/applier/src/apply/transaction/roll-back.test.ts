import type { BundleFiles } from '@sluice/bundle';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ipvsBundle } from '../../../../bundle/src/virtual/bundle.fixture.ts';
import type { Kernel } from '../../ports/kernel.ts';
import { sampleBundle, type SampleServices } from '../../testing/bundle.fixture.ts';
import { dataPlanes, endpointNumbers, kernelText } from '../../testing/data-plane.fixture.ts';
import { Countdown, mortalJournal, mortalKernel } from '../../testing/faults.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';

let node: Scene = scene();
afterEach(() => node.end());

test.each([
  ['by the switch', 'tree', 'iptables', false, ['off', 'forget', 'change']],
  ['in order', 'tree', 'iptables', true, ['look', 'change', 'forget']],
  ['in place', 'flat', 'iptables', false, ['look', 'change', 'forget']],
  ['by the switch of mode nftables', 'tree', 'nftables', false, ['off', 'forget', 'change']],
] as const)(
  'deletes the flows of a release that is rolled back %s once packets meet the old rules',
  async (_title, layout, mode, withoutSwitch, order) => {
    node = scene({ withoutSwitch });
    node.layout = layout;
    // Flows of UDP outlive a change.
    const udp = (endpoints: readonly number[]): BundleFiles =>
      sampleBundle({ services: { 'shop/web': endpoints }, mode, protocol: 'udp' });
    await (await node.start()).reconciler.put(udp([1, 2, 3, 4]), true);
    const done: string[] = [];
    const real = mortalKernel(node.kernel, new Countdown(-1, 'before'));
    const kernel: Kernel = {
      ...real,
      apply: async (step) => {
        if (step.kind === 'nft' || (step.kind === 'restore-table' && step.table === 'nat')) done.push('change');
        return real.apply(step);
      },
      forgetFlows: async (flows) => {
        if (flows.some(({ endpoint }) => endpoint === '10.244.0.6:8080')) done.push('forget');
        return real.forgetFlows(flows);
      },
      switch: real.switch && {
        ...real.switch,
        // Reading takes time: with a switch it comes later.
        look: async () => {
          if (done.length === 0) done.push('look');
          return real.switch?.look();
        },
        off: async (table) => {
          if (table === 'nat') done.push('off');
          return real.switch?.off(table);
        },
      },
    };
    node.health = () => {
      const isOnProbation = endpointNumbers(node.kernel).includes(5);
      if (isOnProbation) done.length = 0;
      return !isOnProbation;
    };
    const { reconciler } = await node.start({}, { kernel });
    expect((await reconciler.put(udp([5, 6, 7, 8]), true)).kind).toBe('rolled-back');
    expect(done.filter((one, at) => one !== done[at - 1])).toEqual(order);
  },
);

describe.each(dataPlanes.filter(({ layout }) => layout === 'tree'))('in mode $mode', ({ layout, mode }) => {
  const bundle = (services: SampleServices, sysctls: readonly string[] = []): BundleFiles =>
    sampleBundle({ services, mode, sysctls });
  beforeEach(() => {
    node = scene();
    node.layout = layout;
  });

  test('restores a sysctl that only the chosen generation sets when a manual rollback crashes', async () => {
    const key = 'net.ipv4.conf.all.route_localnet';
    const opening = bundle({ 'shop/web': [1], 'shop/b': [9] }, [`${key} = 1`]);
    let crashes = 0;
    for (let at = 0; at < 12; at++) {
      node = scene();
      const { reconciler } = await node.start();
      await reconciler.put(opening, true);
      await reconciler.put(bundle({ 'shop/web': [1] }), true);
      expect(await node.kernel.readSysctl(key)).toBe(0);
      const ending = await node.start({}, { kernel: mortalKernel(node.kernel, new Countdown(at, 'after')) });
      const target = await ending.journal.generation(1);
      const left = target && (await ending.reconciler.rollBackTo(target).catch(() => undefined));
      if (left?.kind !== 'confirmed') crashes += 1;
      const next = await node.start();
      await next.reconciler.recover();
      await next.reconciler.repair();
      const stands = next.journal.active?.state.sysctls.get(key) ?? 0;
      expect([at, await node.kernel.readSysctl(key)]).toEqual([at, stands]);
      node.end();
    }
    expect(crashes).toBeGreaterThan(2);
  });

  test('does not count a process that cannot read the kernel during recovery as one that crashed', async () => {
    await (await node.start()).reconciler.put(bundle({ 'shop/web': [1] }), true);
    const release = bundle({ 'shop/web': [1], 'shop/new': [5] });
    const countdown = new Countdown(3, 'after');
    const { journal } = await node.start();
    const ports = { kernel: mortalKernel(node.kernel, countdown), journal: mortalJournal(journal, countdown) };
    const ended = await node.start({}, ports);
    await ended.reconciler.put(release, true).catch(() => undefined);
    expect(journal.open).toBeDefined();
    let isBusy = true;
    const seen = mortalKernel(node.kernel, new Countdown(-1, 'before'));
    const unlessBusy = async <T>(read: () => Promise<T>): Promise<T> => {
      if (isBusy) throw new Error('the lock is held');
      return read();
    };
    const { switch: its } = seen;
    const kernel: Kernel = Object.assign(seen, {
      observeChains: (...asked: Parameters<Kernel['observeChains']>) =>
        unlessBusy(() => node.kernel.observeChains(...asked)),
      switch: its && { ...its, look: () => unlessBusy(() => its.look()) },
    });
    const next = await node.start({}, { kernel });
    for (let look = 0; look < 20; look++) await expect(next.reconciler.repair()).rejects.toThrow('lock');
    expect(next.journal.record.open?.recoveries).toBe(0);
    isBusy = false;
    expect((await next.reconciler.put(release, false)).kind).toBe('confirmed');
  });

  test.each([
    ['taken back', false],
    ['finished', true],
  ])('does not retry or halt after the time limit when a change is %s', async (_title, committed) => {
    await (await node.start()).reconciler.put(bundle({ 'shop/web': [1] }), true);
    const ending = new Countdown(3, 'after');
    const { journal } = await node.start();
    const ports = { kernel: mortalKernel(node.kernel, ending), journal: mortalJournal(journal, ending) };
    const first = await node.start({}, ports);
    await first.reconciler.put(bundle({ 'shop/web': [1], 'shop/new': [5] }), true).catch(() => undefined);
    if (committed) await journal.commit();
    node.kernel.reboot();
    let tries = 0;
    const kernel: Kernel = Object.assign(mortalKernel(node.kernel, new Countdown(-1, 'before')), {
      apply: async () => {
        tries++;
        throw new Error('it hangs');
      },
    });
    const late = await node.start({}, { kernel });
    await expect(late.reconciler.recover(AbortSignal.abort())).rejects.toThrow('it hangs');
    expect([tries, late.journal.halted, late.journal.open === undefined]).toEqual([1, undefined, false]);
    expect((await (await node.start()).reconciler.recover())?.kind).toBe(committed ? 'confirmed' : 'rolled-back');
  });

  test('loads the confirmed rules of a halted node after a boot, and keeps it halted', async () => {
    const { reconciler, journal } = await node.start();
    await reconciler.put(bundle({ 'shop/web': [1, 2] }), true);
    const confirmed = kernelText(node.kernel);
    await journal.halt('the rollback failed');
    expect(await reconciler.isBare()).toBe(false);
    node.kernel.reboot();
    const next = await node.start();
    expect(await next.reconciler.isBare()).toBe(true);
    expect(await next.reconciler.recover()).toMatchObject({ kind: 'held' });
    await next.reconciler.load(next.journal.active!);
    expect(kernelText(node.kernel)).toBe(confirmed);
    expect(next.journal.halted).toBe('the rollback failed');
  });
});

test('mode ipvs: restores the rules although draining servers cannot be written down', async () => {
  node = scene();
  const path = 'profiles/default/services/shop/web.ipvs';
  const fewer = (ipvsBundle.get(path) ?? '').replace('-a -t 10.96.0.10:80 -r 10.244.2.6:8080 -m -w 1\n', '');
  const { reconciler, journal } = await node.start();
  await reconciler.put(ipvsBundle, true);
  await reconciler.put(new Map([...ipvsBundle, [path, fewer]]), true);
  expect(journal.draining).toHaveLength(1);
  await node.kernel.ipvs?.apply({ kind: 'ipvsadm', text: '-D -t 10.96.0.10:80\n', because: 'the test' });
  const deaf = Object.assign(mortalJournal((await node.start()).journal, new Countdown(-1, 'before')), {
    keepDraining: async () => {
      throw new Error('EROFS: read-only file system');
    },
  });
  const frozen = await node.start({}, { journal: deaf });
  await frozen.reconciler.load(frozen.journal.active!);
  expect((await node.kernel.ipvs?.observe())?.servers.size).toBe(5);
  expect(node.events).toContain('draining-not-written');
});
