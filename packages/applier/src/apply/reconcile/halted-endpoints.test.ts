import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { KernelError } from '../../ports/failure.ts';
import type { Kernel, Step } from '../../ports/kernel.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { dataPlanes, endpointNumbers, kernelText } from '../../testing/data-plane.fixture.ts';
import { Countdown, mortalJournal, mortalKernel } from '../../testing/faults.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';

/** The kernel refuses a rollback, and the node is halted: endpoints and repairs of the confirmed generation go on where it takes them. */

let node: Scene;
afterEach(() => node.end());

/** A kernel that answers no to some steps. */
function unwilling(kernel: Kernel, refuses: (step: Step) => boolean): Kernel {
  return {
    ...mortalKernel(kernel, new Countdown(-1, 'before')),
    apply: async (step) => {
      if (refuses(step)) throw new KernelError('iptables-restore', 'Device or resource busy', 'refused');
      await kernel.apply(step);
    },
  };
}

describe.each(dataPlanes)('in layout $layout, mode $mode', ({ layout, mode }) => {
  beforeEach(() => {
    node = scene();
    node.layout = layout;
  });
  const families = ['ipv4', 'ipv6'];
  const of = (web: readonly number[], added?: readonly number[]): Map<string, string> =>
    sampleBundle({ services: { 'shop/web': web, 'shop/cart': [3], 'shop/new': added }, families, mode });
  const [old, release] = [of([1, 2]), of([1, 2], [6])];
  /** What the directory holds by now: the release, with newer endpoints. */
  const newer = of([2, 4], [6]);

  /** A node that the kernel's answers have halted, and the process of it. @param refuses from the rollback on */
  async function halted(refuses: (step: Step) => boolean) {
    await (await node.start()).reconciler.put(old, true);
    const rule = { refuses: (_step: Step): boolean => false };
    const kernel = unwilling(node.kernel, (step) => rule.refuses(step));
    let rounds = 0;
    node.health = () => {
      if (++rounds > 1) rule.refuses = refuses;
      return rounds < 2;
    };
    const { reconciler, journal } = await node.start({}, { kernel });
    expect((await reconciler.put(release, true)).kind).toBe('held');
    node.health = () => true;
    return { reconciler, journal, kernel, rule };
  }

  /** What a node that never met the release holds with the newest endpoints. */
  async function untroubled(): Promise<string> {
    const other = scene();
    try {
      other.layout = layout;
      const { reconciler } = await other.start();
      await reconciler.put(old, true);
      await reconciler.put(of([2, 4]), true);
      return kernelText(other.kernel);
    } finally {
      other.end();
    }
  }

  test('the rollback brings the newest endpoints once the kernel takes it', async () => {
    const { reconciler, journal, rule } = await halted(() => true);
    await reconciler.offerEndpoints(newer);
    expect(journal.halted).toBeDefined();
    rule.refuses = () => false;
    await reconciler.repair();
    expect([journal.halted, journal.open]).toEqual([undefined, undefined]);
    expect(endpointNumbers(node.kernel)).toEqual([2, 3, 4]);
    expect(kernelText(node.kernel)).toBe(await untroubled());
    expect(journal.active).toMatchObject({ number: 1, revision: 1 });
    expect(await reconciler.differences()).toEqual([]);
  });

  test('so it does for the process after the next', async () => {
    const { kernel, reconciler, rule } = await halted(() => true);
    await reconciler.offerEndpoints(of([2, 5], [6]));
    const next = await node.start({}, { kernel });
    expect((await next.reconciler.recover())?.kind).toBe('held');
    await next.reconciler.offerEndpoints(newer);
    rule.refuses = () => false;
    await next.reconciler.repair();
    expect(next.journal.halted).toBeUndefined();
    expect(kernelText(node.kernel)).toBe(await untroubled());
  });

  test('endpoints that the kernel refuses do not keep a rollback out', async () => {
    const { reconciler, journal, rule } = await halted(() => true);
    await reconciler.offerEndpoints(newer);
    rule.refuses = (step) => 'text' in step && step.text.includes('10.244.0.5');
    await reconciler.repair();
    expect([journal.halted, journal.open]).toEqual([undefined, undefined]);
    expect(endpointNumbers(node.kernel)).toEqual([1, 2, 3]);
    expect(await reconciler.differences()).toEqual([]);
  });

  test.each(['before', 'after'] as const)('a crash %s any call leaves the old rules or the newest', async (moment) => {
    const expected = await untroubled();
    for (let at = 0; ; at++) {
      node.end();
      node = scene();
      node.layout = layout;
      const { rule } = await halted(() => true);
      rule.refuses = () => false;
      const countdown = new Countdown(at, moment);
      const plain = await node.start();
      const refusing = unwilling(node.kernel, () => true);
      const parts = { journal: mortalJournal(plain.journal, countdown), kernel: mortalKernel(refusing, countdown) };
      const mortal = await node.start({}, parts);
      await mortal.reconciler.recover().catch(() => undefined);
      await mortal.reconciler.offerEndpoints(newer).catch(() => undefined);
      const willing = { ...parts, kernel: mortalKernel(node.kernel, countdown) };
      Object.assign(parts.kernel, willing.kernel);
      await mortal.reconciler.repair().catch(() => undefined);
      const next = await node.start();
      await next.reconciler.recover();
      await next.reconciler.repair();
      expect([at, next.journal.halted, next.journal.open]).toEqual([at, undefined, undefined]);
      const held = endpointNumbers(node.kernel).join();
      expect([at, held]).toEqual([at, expect.stringMatching(/^(?:1,2,3|2,3,4)$/)]);
      if (held === '1,2,3') await next.reconciler.put(of([2, 4]), true);
      expect([at, kernelText(node.kernel)]).toEqual([at, expected]);
      if (countdown.calls <= at) break;
      expect(at).toBeLessThan(100);
    }
  });
});

describe.each(dataPlanes.filter(({ mode }) => mode !== 'ipvs'))(
  'in parts, in layout $layout, mode $mode',
  ({ layout, mode }) => {
    beforeEach(() => {
      node = scene();
      node.layout = layout;
    });
    const families = ['ipv4', 'ipv6'];
    const of = (web: readonly number[], added?: readonly number[]): Map<string, string> =>
      sampleBundle({ services: { 'shop/web': web, 'shop/cart': [3], 'shop/new': added }, families, mode });

    const chains = (): readonly string[] => node.kernel.save('ipv4').match(/(?<=^:)\S+/gm) ?? [];

    /** What packets of IPv4 meet. */
    const right = (): string => {
      const svc4 = [...(node.kernel.nft.list()?.elements.get('svc4') ?? [])].map((one) => one.join(' ')).toSorted();
      return [...svc4, node.kernel.save('ipv4'), endpointNumbers(node.kernel).join()].join('\n');
    };
    /** Another program removes rules. */
    const flush = async (): Promise<void> => {
      const [first] = node.kernel.nft.list()?.elements.get('svc4')?.keys() ?? [];
      if (first) await node.kernel.nft.load(`delete element inet sluice svc4 { ${first} }\n`);
      else {
        const entry = layout === 'tree' ? 'SLUICE-SERVICES' : 'KUBE-SERVICES';
        node.kernel.load('ipv4', `*nat\n:${entry} - [0:0]\nCOMMIT\n`);
      }
    };

    /** A halted node whose kernel refuses some steps from the rollback on. */
    async function halted(refuses: (step: Step, ofRelease: ReadonlySet<string>) => boolean) {
      await (await node.start()).reconciler.put(of([1, 2]), true);
      const before = new Set(chains());
      let rounds = 0;
      let ofRelease: ReadonlySet<string> | undefined;
      node.health = () => {
        if (++rounds > 1) ofRelease = new Set(chains().filter((name) => !before.has(name)));
        return rounds < 2;
      };
      const kernel = unwilling(node.kernel, (step) => ofRelease !== undefined && refuses(step, ofRelease));
      const { reconciler, journal } = await node.start({}, { kernel });
      expect((await reconciler.put(of([1, 2], [6]), true)).kind).toBe('held');
      return { reconciler, journal, kernel };
    }
    const removesRelease = (step: Step, ofRelease: ReadonlySet<string>): boolean =>
      'text' in step &&
      (step.text.includes('delete element inet sluice tkey4') ||
        (step.text.match(/(?<=^-X )\S+/gm) ?? []).some((name) => ofRelease.has(name)));
    const isIpv6 = (step: Step): boolean =>
      'family' in step ? step.family === 'ipv6' : 'text' in step && / element inet sluice [a-z]+6 /.test(step.text);
    const parts = [
      ['the removal of the release', removesRelease],
      ['the other family', isIpv6],
    ] as const;

    test.each(parts)('while the kernel refuses %s, endpoints go in and drift is repaired', async (_title, refuses) => {
      const { reconciler, journal, kernel } = await halted(refuses);
      // Pods come and go.
      for (const web of [
        [2, 5],
        [1, 5],
        [2, 5],
        [2, 4],
      ])
        await reconciler.offerEndpoints(of(web, [6]));
      const before = right();
      expect(endpointNumbers(node.kernel)).toEqual(expect.arrayContaining([2, 3, 4]));
      await flush();
      expect(right()).not.toBe(before);
      await reconciler.repair();
      expect(right()).toBe(before);
      expect(journal.halted).toContain('Device or resource busy');
      // So it is with the next process.
      const next = await node.start({}, { kernel });
      await flush();
      await next.reconciler.recover();
      await next.reconciler.offerEndpoints(of([2, 4], [6]));
      expect(right()).toBe(before);
      expect(next.journal.halted).toContain('Device or resource busy');
    });

    test('so is drift on a node that is not halted, as after a boot', async () => {
      await (await node.start()).reconciler.put(of([1, 2]), true);
      const before = right();
      node.kernel.reboot();
      const { reconciler, journal } = await node.start({}, { kernel: unwilling(node.kernel, (step) => isIpv6(step)) });
      await expect(reconciler.repair()).rejects.toThrow('Device or resource busy');
      expect(right()).toBe(before);
      expect(journal.halted).toBeUndefined();
    });
  },
);
