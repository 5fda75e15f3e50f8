import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { hash16, sampleBundle } from '../../testing/bundle.fixture.ts';
import { dataPlanes } from '../../testing/data-plane.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';
import { limits } from '../../limits.ts';
import { everythingIn, families, firstOf, foreign, foreignLinesIn, secondOf } from './reconciler.fixture.ts';

let node: Scene;
afterEach(() => node.end());
const everything = (): Promise<string> => everythingIn(node);

describe.each(dataPlanes)('layout $layout, mode $mode', ({ layout, mode }) => {
  beforeEach(() => {
    node = scene({ rules: { ipv4: foreign } });
    node.layout = layout;
  });
  const [one, two] = [firstOf(mode), secondOf(mode)];
  const prefix = layout === 'flat' ? 'KUBE' : 'SLUICE';
  /** What a kernel with these rules has, at least. */
  const entry =
    mode === 'nftables'
      ? 'services4 ip daddr . meta l4proto . th dport vmap @svc4'
      : `-A PREROUTING -m comment --comment "kubernetes service portals" -j ${prefix}-SERVICES`;

  describe('put', () => {
    test('confirms a first bundle and keeps the rules before it as generation 0', async () => {
      const before = await everything();
      const { reconciler, journal } = await node.start();
      expect((await reconciler.put(one, false)).kind).toBe('confirmed');
      expect(await everything()).toContain(entry);
      const first = await journal.generation(0);
      expect(first && (await reconciler.rollBackTo(first)).kind).toBe('confirmed');
      expect(await everything()).toBe(before);
    });

    test('quarantines the version that a manual rollback leaves, but never generation 0', async () => {
      const { reconciler, journal } = await node.start();
      await reconciler.put(one, false);
      const first = journal.active;
      const before = await journal.generation(0);
      expect(before && (await reconciler.rollBackTo(before)).kind).toBe('confirmed');
      expect(first && (await reconciler.rollBackTo(first)).kind).toBe('confirmed');
      expect(journal.quarantined('before')).toBeUndefined();
      await reconciler.put(two, false);
      const left = journal.active?.version ?? '';
      expect(first && (await reconciler.rollBackTo(first)).kind).toBe('confirmed');
      expect(journal.quarantined(left)).toContain('rolled back manually');
      expect(await reconciler.put(two, false)).toMatchObject({ kind: 'refused' });
    });

    test('rolls back on a disk that takes no write, and says that nothing was written', async () => {
      const { reconciler, journal } = await node.start();
      await reconciler.put(one, false);
      const first = await everything();
      await reconciler.put(two, false);
      const target = await journal.generation(1);
      const fails = () => Promise.reject(new Error('EROFS'));
      const readOnly = new Proxy(journal, {
        get: (all, key: keyof typeof journal) => {
          if (key === 'begin' || key === 'choose') return fails;
          const value: unknown = Reflect.get(all, key, all);
          return typeof value === 'function' ? (value.bind(all) as unknown) : value;
        },
      });
      const next = await node.start({}, { journal: readOnly });
      expect(target && (await next.reconciler.rollBackTo(target))).toMatchObject({
        kind: 'confirmed',
        unwritten: 'EROFS',
      });
      expect(await everything()).toBe(first);
      const later = await node.start();
      expect(later.journal.active?.number).toBe(2);
      expect(target && (await later.reconciler.rollBackTo(target)), 'and again when it does').not.toHaveProperty(
        'unwritten',
      );
      expect(later.journal.active?.number).toBe(1);
    });

    test('takes no step for the same bundle', async () => {
      const { reconciler } = await node.start();
      await reconciler.put(one, false);
      const steps = node.kernel.taken.length;
      expect((await reconciler.put(one, false)).kind).toBe('same');
      expect(node.kernel.taken.length).toBe(steps);
    });

    test('sends only what changed', async () => {
      const { reconciler } = await node.start();
      await reconciler.put(one, false);
      const steps = node.kernel.taken.length;
      await reconciler.put(sampleBundle({ services: { 'shop/web': [1, 9], 'shop/cart': [3] }, families, mode }), false);
      const sent = node.kernel.taken.slice(steps).map((step) => ('text' in step ? step.text : ''));
      // One commit for each family, or one that sends packets to the new endpoint and one that collects the old one.
      // In mode ipvs, by ipset and ipvsadm: an entry and a real server come, weight 0 goes to the old one, and its entry.
      expect(sent).toHaveLength(mode === 'ipvs' ? 4 : 2);
      const [changed, other] =
        mode !== 'iptables'
          ? [mode === 'ipvs' ? '10.96.0.11:80' : '10.96.0.11 . 80', /10\.96\.0\.12/]
          : [hash16('shop/web'), new RegExp(`^:\\S*${hash16('shop/cart')}`, 'm')];
      expect(sent.join('')).toContain(changed);
      expect(sent.join('')).not.toMatch(other);
    });

    test('leaves foreign rules unchanged byte for byte', async () => {
      const before = foreignLinesIn(node);
      const { reconciler } = await node.start();
      for (const files of [one, two, one]) {
        expect((await reconciler.put(files, false)).kind).toBe('confirmed');
        expect(foreignLinesIn(node)).toBe(before);
      }
      const steps = await reconciler.cleanup();
      expect(steps).toBeGreaterThan(0);
      expect(await everything()).not.toContain(entry);
      expect(await everything()).not.toContain('KUBE-S');
      expect(foreignLinesIn(node)).toBe(before);
    });

    test('restores the old rules in every table and family when a probe fails, and does not retry the version', async () => {
      const { reconciler } = await node.start();
      await reconciler.put(one, false);
      const before = await everything();
      let asked = 0;
      node.health = () => asked++ === 0;
      expect(await reconciler.put(two, false)).toMatchObject({
        kind: 'rolled-back',
        because: 'health failed: web (status 500)',
      });
      expect(await everything()).toBe(before);
      node.health = () => true;
      const again = await reconciler.put(two, false);
      expect(again.kind === 'refused' && again.refusal.problems[0]?.code).toBe('BUNDLE_QUARANTINED');
      expect((await reconciler.put(two, true)).kind).toBe('confirmed');
    });

    test('delays releases after three failures in a row, with exponential back-off; not endpoint updates, manual applies and urgent releases', async () => {
      let now = 0;
      const clock = { now: () => now, bootMs: () => now, sleep: async () => undefined };
      const { reconciler, journal } = await node.start({}, { clock });
      const release = (n: number) => sampleBundle({ services: { 'shop/web': [n] }, families, mode });
      const three = sampleBundle({ services: { 'shop/web': [1, 2, 3], 'shop/cart': [3] }, families, mode });
      await reconciler.put(one, false);
      /** The probe passes before a release and fails after it. */
      const fails = async (n: number): Promise<string> => {
        let asked = 0;
        node.health = () => asked++ === 0;
        const { kind } = await reconciler.put(release(n), false);
        node.health = () => true;
        return kind;
      };
      expect([await fails(70), await fails(71), await fails(72)]).toEqual([
        'rolled-back',
        'rolled-back',
        'rolled-back',
      ]);
      expect(journal.notBeforeMs).toBe(limits.backOffMs);
      const refused = await reconciler.put(release(73), false);
      expect(refused.kind === 'refused' && refused.refusal.problems[0]?.message).toContain(
        'back-off until 1970-01-01T00:05:00Z',
      );
      expect((await reconciler.put(three, false)).kind).toBe('confirmed');
      now = limits.backOffMs;
      expect(await fails(73)).toBe('rolled-back');
      expect(journal.notBeforeMs).toBe(2 * limits.backOffMs);
      expect((await reconciler.put(release(74), false)).kind).toBe('refused');
      expect((await reconciler.put(release(74), false, undefined, false, { isUrgent: true })).kind).toBe('confirmed');
      expect(journal.notBeforeMs).toBe(0);
    });

    test('does not roll back for a probe that failed before the change', async () => {
      node.health = () => false;
      const { reconciler } = await node.start();
      expect((await reconciler.put(one, false)).kind).toBe('confirmed');
    });

    test('restores the old value of a sysctl that a later bundle does not set', async () => {
      const { reconciler } = await node.start();
      await reconciler.put(two, false);
      expect(await node.kernel.readSysctl('net.ipv4.conf.all.route_localnet')).toBe(1);
      await reconciler.put(one, false);
      expect(await node.kernel.readSysctl('net.ipv4.conf.all.route_localnet')).toBe(0);
    });
  });

  describe('beside kube-proxy', () => {
    test("takes over kube-proxy's chains with takeOver if none runs, and restores them as generation 0", async () => {
      node.kernel.load(
        'ipv4',
        '*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-NPX46M4PTMTKRN6Y - [0:0]\n-A KUBE-SERVICES -j KUBE-SVC-NPX46M4PTMTKRN6Y\n-A OUTPUT -j KUBE-SERVICES\nCOMMIT\n',
      );
      const before = await everything();
      node.kubeProxies = [4711];
      const willing = await node.start({ takeOver: true });
      const running = await willing.reconciler.put(one, false);
      expect(running.kind === 'refused' && running.refusal.problems[0]?.hint).toContain('4711');
      expect(await everything()).toBe(before);
      node.kubeProxies = [];
      expect((await willing.reconciler.put(one, false)).kind).toBe('confirmed');
      expect(node.kernel.save('ipv4')).not.toContain('NPX46M4PTMTKRN6Y');
      const first = await willing.journal.generation(0);
      expect(first && (await willing.reconciler.rollBackTo(first)).kind).toBe('confirmed');
      expect(await everything()).toBe(before);
    });
  });
});

describe.each(dataPlanes.filter(({ mode }) => mode === 'iptables'))(
  'drift and foreign rules in layout $layout',
  ({ layout }) => {
    beforeEach(() => {
      node = scene({ rules: { ipv4: foreign } });
      node.layout = layout;
    });
    const one = firstOf('iptables');
    const prefix = layout === 'flat' ? 'KUBE' : 'SLUICE';

    test('repairs an emptied chain and a deleted jump', async () => {
      const { reconciler } = await node.start();
      await reconciler.put(one, false);
      const before = await everything();
      node.kernel.load(
        'ipv4',
        `*nat\n:${prefix}-SERVICES - [0:0]\n-D PREROUTING -m comment --comment "kubernetes service portals" -j ${prefix}-SERVICES\nCOMMIT\n`,
      );
      expect(await reconciler.repair()).toBe(1);
      expect(await everything()).toBe(before);
      expect(await reconciler.repair()).toBe(0);
    });

    test('confirms a bundle although our rules were changed since the last scan', async () => {
      // In both layouts an endpoint that stays then has a chain to remove.
      node.kernel.reboot({ withoutBpf: true });
      const { reconciler } = await node.start();
      await reconciler.put(one, false);
      const chains = node.kernel.save('ipv4').match(/(?<=^:)\S+-(SVC|SEP)-\S+/gm) ?? [];
      const of = (name: string): string => chains.find((chain) => chain.includes(hash16(name))) ?? '';
      const [sep, svc] = [of('shop/web2'), of('shop/web')];
      node.kernel.load('ipv4', `*nat\n:${svc} - [0:0]\n:${sep} - [0:0]\n-X ${sep}\nCOMMIT\n`);
      const other = sampleBundle({ services: { 'shop/web': [2, 4, 5], 'shop/new': [6] }, families });
      expect((await reconciler.put(other, false)).kind).toBe('confirmed');
      expect(node.events).toContain('rolling-back');
      expect(await reconciler.repair()).toBe(0);
      expect(node.kernel.save('ipv4')).toContain('--to-destination 10.244.0.3:8080');
    });

    test("leaves kube-proxy's rules without takeOver: refuses layout flat, and puts layout tree before them", async () => {
      node.kernel.load(
        'ipv4',
        '*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n-A KUBE-SERVICES -j RETURN\n-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n',
      );
      node.kubeProxies = [4711];
      const before = await everything();
      const { reconciler } = await node.start();
      const outcome = await reconciler.put(one, false);
      const said = outcome.kind === 'refused' ? outcome.refusal.problems[0]?.code : outcome.kind;
      expect(said).toBe(layout === 'flat' ? 'NODE_CHAINS_NOT_OURS' : 'confirmed');
      const jumps = node.kernel.save('ipv4').match(/(?<=^-A PREROUTING .*-j )\S+/gm);
      expect(jumps).toEqual(layout === 'flat' ? ['KUBE-SERVICES'] : ['SLUICE-SERVICES', 'KUBE-SERVICES']);
      expect(node.kernel.save('ipv4')).toContain(':KUBE-MARK-MASQ - [0:0]\n');
      await reconciler.cleanup();
      expect(await everything()).toBe(before);
    });

    test('keeps a chain of ours that a foreign rule leads to when all others are removed', async () => {
      const { reconciler } = await node.start();
      await reconciler.put(one, false);
      node.kernel.load('ipv4', '*nat\n-A CNI-X -j KUBE-MARK-MASQ\nCOMMIT\n');
      await reconciler.cleanup();
      const left = node.kernel.save('ipv4').match(/^:KUBE-\S+/gm);
      expect(left).toEqual([':KUBE-FIREWALL', ':KUBE-MARK-MASQ']);
    });
  },
);
