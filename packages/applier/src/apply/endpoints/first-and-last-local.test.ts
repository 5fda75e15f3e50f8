import type { BundleFiles } from '@sluice/bundle';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { hash16, sampleBundle } from '../../testing/bundle.fixture.ts';
import { Countdown, mortalJournal, mortalKernel } from '../../testing/faults.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';

/** A Service with external policy Local and endpoints on other nodes, which gets the first one of this node or loses the last one. */

const [svc, svl, ext] = ['SVC', 'SVL', 'EXT'].map((kind) => `KUBE-${kind}-${hash16('shop/gate')}`);
const sep = (address: string): string => `KUBE-SEP-${hash16(address)}`;
const frontends = ['-d 203.0.113.50 --dport 80', '--dport 30090'] as const;

/** The last bytes of pods' addresses, on this node and on another one. */
interface Places {
  readonly here?: readonly number[];
  readonly there?: readonly number[];
}

/** The form of `sluice render`. @param toLocal the place of the rule for this node's endpoints */
function rulesOf({ here = [], there = [1, 2] }: Places, toLocal: 'first' | 'last'): string {
  const [own, all] = [
    here.map((n) => `10.244.1.${n}`),
    [...here.map((n) => `10.244.1.${n}`), ...there.map((n) => `10.244.2.${n}`)],
  ];
  const choices = (chain: string, ones: readonly string[], guard = ''): readonly string[] =>
    ones.map((one, at) => {
      const left = ones.length - at;
      const chance = left > 1 ? ` -m statistic --mode random --probability ${(1 / left).toFixed(10)}` : '';
      return `${guard}-A ${chain}${chance} -j ${sep(one)}`;
    });
  const local = own.length > 0 ? [`@local=${svl} -A ${ext} -j ${svl}`] : [];
  return [
    '*filter',
    ...frontends.map(
      (frontend) =>
        `${own.length > 0 ? `@nolocal=${svl} ` : ''}-A KUBE-EXTERNAL-SERVICES -m tcp -p tcp ${frontend} -j DROP`,
    ),
    'COMMIT',
    '*nat',
    ...[ext, svc, ...(own.length > 0 ? [svl] : []), ...all.map(sep)].map((chain) => `:${chain} - [0:0]`),
    `-A KUBE-SERVICES -m tcp -p tcp -d 10.96.0.50 --dport 80 -j ${svc}`,
    `-A KUBE-SERVICES -m tcp -p tcp ${frontends[0]} -j ${ext}`,
    `-A KUBE-NODEPORTS -m tcp -p tcp ${frontends[1]} -j ${ext}`,
    ...(toLocal === 'first' ? local : []),
    `-A ${ext} -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ`,
    `-A ${ext} -m addrtype --src-type LOCAL -j ${svc}`,
    ...(toLocal === 'last' ? local : []),
    ...choices(svc ?? '', all),
    ...choices(svl ?? '', own, '@node=node-a '),
    ...all.map((one) => `-A ${sep(one)} -m tcp -p tcp -j DNAT --to-destination ${one}:8080`),
    'COMMIT\n',
  ].join('\n');
}

function bundle(places: Places, toLocal: 'first' | 'last' = 'last'): BundleFiles {
  const files = sampleBundle({ services: { 'shop/web': [1, 2] } });
  const first = 'profiles/default/base/first.iptables';
  const declared = (text: string, table: string, chain: string): string =>
    text.replace(`*${table}\n`, `*${table}\n:${chain} - [0:0]\n`);
  const base = declared(files.get(first) ?? '', 'filter', 'KUBE-EXTERNAL-SERVICES');
  files.set(first, declared(base, 'nat', 'KUBE-NODEPORTS'));
  files.set(
    'profiles/default/base/last.iptables',
    '*nat\n-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\nCOMMIT\n',
  );
  return files.set('profiles/default/services/shop/gate.iptables', rulesOf(places, toLocal));
}

const afterMs = 10_000;
const drops = (text: string): number => text.match(/ -j DROP$/gm)?.length ?? 0;

describe.each(['tree', 'flat'] as const)('in layout %s', (layout) => {
  let node: Scene;
  let nowMs: number;
  const clock = { now: () => nowMs, bootMs: () => nowMs, sleep: async () => undefined };
  beforeEach(() => {
    node = make();
    nowMs = 0;
  });
  afterEach(() => node.end());
  const make = (): Scene => Object.assign(scene(), { layout });

  /** The rules of a fresh node with this bundle. */
  async function fresh(places: Places): Promise<string> {
    const other = make();
    await (await other.start()).reconciler.put(bundle(places), false);
    const rules = other.kernel.save('ipv4');
    other.end();
    return rules;
  }

  test.each<[string, Places, Places]>([
    ['one', {}, { here: [5] }],
    ['several', {}, { here: [5, 6], there: [1, 2, 3] }],
    ['one, replacing one of another node', {}, { here: [5], there: [1] }],
  ])('the first endpoint of the node comes at once: %s', async (_title, before, after) => {
    const { reconciler, journal } = await node.start({ lastEndpointAfterMs: afterMs }, { clock });
    await reconciler.put(bundle(before), false);
    expect(drops(node.kernel.save('ipv4'))).toBe(2);
    expect(await reconciler.put(bundle(after), false)).not.toHaveProperty('waitsMs');
    expect(journal.active).toMatchObject({ number: 1, revision: 1 });
    expect(node.kernel.save('ipv4')).toBe(await fresh(after));
    expect(await reconciler.repair()).toBe(0);
  });

  test.each<[string, Places, Places]>([
    ['one', { here: [5] }, {}],
    ['several', { here: [5, 6], there: [1, 2, 3] }, { there: [1, 2, 3] }],
    ['one, replaced on another node', { here: [5], there: [1] }, { there: [1, 2] }],
  ])('removes the last endpoint of the node after the delay: %s', async (_title, before, after) => {
    const { reconciler, journal } = await node.start({ lastEndpointAfterMs: afterMs }, { clock });
    await reconciler.put(bundle(before), false);
    expect(await reconciler.put(bundle(after), false)).toMatchObject({ waitsMs: afterMs });
    expect(drops(node.kernel.save('ipv4'))).toBe(0);
    nowMs = afterMs;
    expect(await reconciler.put(bundle(after), false)).not.toHaveProperty('waitsMs');
    expect(journal.active?.number).toBe(1);
    expect(node.kernel.save('ipv4')).toBe(await fresh(after));
    expect(await reconciler.repair()).toBe(0);
  });

  test('classifies a rule for local endpoints that takes packets of other rules as a release, and refuses it from keys for endpoints', async () => {
    const { reconciler, journal } = await node.start();
    await reconciler.put(bundle({}), false);
    for (const toLocal of ['first', 'last'] as const)
      expect(await reconciler.put(bundle({ here: [5] }, toLocal), false, undefined, true)).toMatchObject({
        kind: 'refused',
        refusal: { problems: [{ code: 'RELEASE_ENDPOINTS_ONLY' }] },
      });
    await reconciler.put(bundle({ here: [5] }, 'first'), false);
    expect(journal.active).toMatchObject({ number: 2, revision: 0 });
  });

  test.each([
    ['first', 'before', {}, { here: [5] }],
    ['first', 'after', {}, { here: [5] }],
    ['last', 'before', { here: [5] }, {}],
    ['last', 'after', { here: [5] }, {}],
  ] as const)(
    'the %s endpoint: after a crash %s any call the kernel matches the journal',
    async (_which, fault, before, after) => {
      const rules = { before: await fresh(before), after: await fresh(after) };
      let isNew = 0;
      let at = 0;
      for (; ; at++) {
        node.end();
        node = make();
        await (await node.start()).reconciler.put(bundle(before), false);
        const countdown = new Countdown(at, fault);
        const plain = await node.start();
        const journal = mortalJournal(plain.journal, countdown);
        const mortal = await node.start({}, { kernel: mortalKernel(node.kernel, countdown), journal });
        await mortal.reconciler.put(bundle(after), false).catch(() => undefined);
        if (countdown.calls <= at) break;
        const next = await node.start();
        await next.reconciler.recover();
        await next.reconciler.repair();
        const isIn = next.journal.active?.number === 1 && next.journal.active.revision > 0;
        isNew += Number(isIn);
        expect(node.kernel.save('ipv4')).toBe(isIn ? rules.after : rules.before);
        await next.reconciler.put(bundle(after), false);
        expect(node.kernel.save('ipv4')).toBe(rules.after);
        expect(await next.reconciler.repair()).toBe(0);
      }
      expect(isNew).toBeGreaterThan(0);
      expect(isNew).toBeLessThan(at);
    },
  );
});
