import { afterEach, describe, expect, test } from 'vitest';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { dataPlanes, endpointNumbers } from '../../testing/data-plane.fixture.ts';
import { flush } from '../../testing/flush.fixture.ts';
import { type Scene, scene, steppingClock } from '../../testing/scene.fixture.ts';

/**
 * A node without a generation of its own: the rules before a release are those of a kube-proxy, or none. Where they were flushed, probes that
 * failed without them excuse nothing.
 */

let node: Scene = scene();
afterEach(() => node.end());

/** Of a kube-proxy that serves shop/cart at endpoint 3. */
const proxyRules = `*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A OUTPUT -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.12/32 -p tcp -m tcp --dport 80 -j KUBE-SEP-AAAAAAAAAAAAAAAA
-A KUBE-SEP-AAAAAAAAAAAAAAAA -p tcp -m tcp -j DNAT --to-destination 10.244.0.4:8080
COMMIT
`;

describe.each(dataPlanes)('layout $layout, mode $mode', ({ layout, mode }) => {
  const bundle = (web: readonly number[]) => sampleBundle({ services: { 'shop/web': web, 'shop/cart': [3] }, mode });
  const [bad, good] = [bundle([90]), bundle([4])];
  const serves = (): boolean => {
    const numbers = endpointNumbers(node.kernel);
    return numbers.includes(3) && !numbers.includes(90);
  };

  /** @param moment called before each probe */
  async function start(rules: string | undefined, moment: () => void = () => undefined) {
    node.end();
    node = scene(rules === undefined ? {} : { rules: { ipv4: rules } });
    node.layout = layout;
    const once = async () => {
      moment();
      return [{ name: 'web', healthy: serves(), seen: 'status' }];
    };
    const policies = [{ name: 'web', failures: 1, window: 1 }];
    const probes = { policies, intervalMs: 1000, once, untilVerdict: once };
    return node.start({ takeOver: true }, { probes, clock: steppingClock() });
  }

  test.each(['before it', 'at its first probe'])(
    "rolls a bad take-over back where kube-proxy's rules are flushed %s",
    async (when) => {
      let probes = 0;
      const { reconciler, journal } = await start(proxyRules, () => {
        if (when !== 'before it' && ++probes === 1) flush(node.kernel, 'empties', mode);
      });
      if (when === 'before it') flush(node.kernel, 'empties', mode);
      const outcome = await reconciler.put(bad, false);
      expect(outcome).toMatchObject({
        kind: 'rolled-back',
        // What was planned before the flush meets other rules.
        because: expect.stringMatching(/whether it failed before is not known|another program changed the rules/),
      });
      expect(journal.active?.number).toBe(0);
      expect(await reconciler.put(good, false)).toMatchObject({ kind: 'confirmed' });
      expect([journal.active?.number, serves()]).toEqual([2, true]);
    },
  );

  test("rolls a bad take-over back where all of kube-proxy's rules are gone since it was refused", async () => {
    const { reconciler } = await start(layout === 'tree' ? undefined : proxyRules);
    node.kubeProxies = [42];
    node.kernel.hasProxyTable = true;
    expect((await reconciler.put(bad, false)).kind).toBe('refused');
    node.kubeProxies = [];
    node.kernel.hasProxyTable = false;
    flush(node.kernel, 'removes', mode);
    expect((await reconciler.put(bad, false)).kind).toBe('rolled-back');
    expect(await reconciler.put(good, false)).toMatchObject({ kind: 'confirmed' });
  });

  test.each([
    ['runs', true, 'refused'],
    ['was seen to serve', false, 'refused'],
    ['has left no trace', false, 'confirmed'],
  ])(
    'with requireParity, and all rules flushed, where a kube-proxy %s (running: %s), a release without a certificate is %s',
    async (what, runs, kind) => {
      const asked: string[] = [];
      const refusal = {
        problems: [{ code: 'NODE_PARITY_MISSING', level: 'error', message: 'no certificate', hint: 'make one' }],
      } as const;
      const parity = {
        servesElsewhere: async () => false,
        refuse: async (version: string) => (asked.push(version), refusal),
      };
      await start(proxyRules);
      const { reconciler, journal } = await node.start({ takeOver: true }, { parity, clock: steppingClock() });
      if (what === 'was seen to serve') await reconciler.put(good, false);
      const before = asked.length;
      flush(node.kernel, 'removes', mode);
      // Beneath rules of its own, as where it stays.
      if (runs) node.kubeProxies = [42];
      const { kind: ended } = await reconciler.put(good, false);
      expect([ended, asked.length > before, journal.active === undefined]).toEqual([
        kind,
        kind === 'refused',
        kind === 'refused',
      ]);
    },
  );

  test('reads no processes for a change of rules of its own', async () => {
    const { reconciler } = await start(proxyRules);
    expect((await reconciler.put(good, false)).kind).toBe('confirmed');
    Object.defineProperty(node, 'kubeProxies', { get: () => expect.fail('processes were read') });
    expect((await reconciler.put(bundle([5]), false)).kind).toBe('confirmed');
  });

  test('confirms a first release that fails its probes like a node without any rules, and one that fails them as kube-proxy did', async () => {
    for (const rules of [undefined, proxyRules.replace('10.244.0.4', '10.244.0.91')]) {
      const { reconciler } = await start(rules);
      expect(await reconciler.put(bad, false)).toMatchObject({ kind: 'confirmed', failing: ['web'] });
    }
  });

  test('verifies generation 0, too: after a rollback to it a flush excuses nothing', async () => {
    const { reconciler, journal } = await start(proxyRules);
    expect((await reconciler.put(good, false)).kind).toBe('confirmed');
    await reconciler.rollBackTo((await journal.generation(0))!);
    expect([journal.active?.number, serves()]).toEqual([0, true]);
    flush(node.kernel, 'empties', mode);
    expect((await reconciler.put(bad, false)).kind).toBe('rolled-back');
    expect([journal.active?.number, serves()]).toEqual([0, true]);
  });
});

describe.each(dataPlanes.filter((plane) => plane.layout === 'tree' && plane.mode === 'iptables'))(
  'in front of a kube-proxy',
  ({ layout, mode }) => {
    const bundle = (web: readonly number[]) => sampleBundle({ services: { 'shop/web': web, 'shop/cart': [3] }, mode });

    test('waits while its rules are flushed, without blame, until it has put them back', async () => {
      node = scene({ rules: { ipv4: proxyRules } });
      node.layout = layout;
      node.kubeProxies = [42];
      const { reconciler, journal } = await node.start();
      flush(node.kernel, 'empties', mode);
      node.health = () => false;
      expect(await reconciler.put(bundle([90]), false)).toMatchObject({
        refusal: { problems: [{ code: 'NODE_RULES_UNSTEADY', message: expect.stringContaining('before Sluice') }] },
      });
      expect([journal.active, journal.open]).toEqual([undefined, undefined]);
      node.kernel.load('ipv4', proxyRules.replace(/^:(?:PREROUTING|OUTPUT).*\n/gm, ''));
      expect(await reconciler.put(bundle([90]), false)).toMatchObject({ kind: 'confirmed', failing: ['web'] });
    });
  },
);
