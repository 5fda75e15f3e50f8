import type { BundleFiles } from '@sluice/bundle';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ipvsBundle } from '../../../../bundle/src/virtual/bundle.fixture.ts';
import { Countdown, mortalJournal, mortalKernel } from '../../testing/faults.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';

/** Mode ipvs: virtual servers that get their first real server or lose the last one. */

const afterMs = 10_000;
let node: Scene;
let nowMs: number;
const clock = { now: () => nowMs, bootMs: () => nowMs, sleep: async () => undefined };
beforeEach(() => {
  node = scene();
  nowMs = 0;
});
afterEach(() => node.end());

/** The last bytes of pods' addresses, on this node and on another one; and which traffic has policy Local. */
interface Pool {
  readonly here?: readonly number[];
  readonly there?: readonly number[];
  readonly local?: 'inside' | 'outside';
  /** The network of the other node's pods. */
  readonly net?: string;
  readonly port?: number;
  readonly scheduler?: string;
}

const file = (tool: string): string => `profiles/default/services/shop/pool.${tool}`;
const [inside, outside] = ['10.96.0.50:80', '203.0.113.60:80'] as const;

/** The fixture's bundle with Service shop/pool, which has an internal and an external frontend. */
function bundle({ here = [], there = [], local, net = '10.244.2', port = 8080, scheduler = 'rr' }: Pool): BundleFiles {
  const [own, others] = [here.map((n) => `10.244.1.${n}`), there.map((n) => `${net}.${n}`)];
  const servers = ([inside, outside] as const).flatMap((frontend) => {
    const real = (address: string, guard = ''): string => `${guard}-a -t ${frontend} -r ${address}:${port} -m -w 1`;
    const all = (guard = ''): readonly string[] => [...own, ...others].map((address) => real(address, guard));
    const isLocal = own.length > 0 && local === (frontend === inside ? 'inside' : 'outside');
    const lines = isLocal
      ? [...own.map((one) => real(one, '@node=node-a ')), ...all(`@nolocal=${frontend}/TCP `)]
      : all();
    return [`-A -t ${frontend} -s ${scheduler}`, ...lines];
  });
  const entries = [
    'add KUBE-CLUSTER-IP 10.96.0.50,tcp:80',
    `add KUBE-EXTERNAL-IP${local === 'outside' ? '-LOCAL' : ''} 203.0.113.60,tcp:80`,
    'add KUBE-IPVS-IPS 10.96.0.50',
    'add KUBE-IPVS-IPS 203.0.113.60',
    ...own.map((address) => `@node=node-a add KUBE-LOOP-BACK ${address},tcp:${port},${address}`),
  ];
  const text = (lines: readonly string[]): string => `# shop/pool NodePort\n${lines.join('\n')}\n`;
  return new Map([...ipvsBundle, [file('ipvs'), text(servers)], [file('ipset'), text(entries)]]);
}

/** The real servers that get new connections, of each frontend. */
async function serving(): Promise<readonly (readonly string[])[]> {
  const { servers } = await node.kernel.ipvs.observe();
  return [inside, outside].map((frontend) =>
    [...(servers.get(`${frontend}/TCP`)?.real.values() ?? [])]
      .filter(({ weight }) => weight > 0)
      .map(({ address }) => address.replace('10.244.', ''))
      .toSorted(),
  );
}

/** Compares the kernel with that of a fresh node with this bundle. */
async function isAsFresh(pool: Pool): Promise<boolean> {
  const own = node;
  const now = await serving();
  node = scene();
  await (await node.start()).reconciler.put(bundle(pool), false);
  const wanted = await serving();
  node.end();
  node = own;
  return JSON.stringify(now) === JSON.stringify(wanted);
}

/** Puts one bundle after another in. */
async function change(before: Pool, after: Pool) {
  const { reconciler, journal } = await node.start({ lastEndpointAfterMs: afterMs }, { clock });
  await reconciler.put(bundle(before), false);
  const old = await serving();
  let asked = 0;
  node.health = () => asked++ >= 0;
  const outcome = await reconciler.put(bundle(after), false);
  return { reconciler, journal, old, outcome, tried: () => asked > 0 };
}

const many = [1, 2, 3, 4, 5];
type Row = readonly [string, Pool, Pool];

test.each<Row>([
  ['the first real server', {}, { here: [5] }],
  ['several first real servers', {}, { here: [5, 6], there: [7] }],
  ['a first real server with another port', {}, { there: [5], port: 9443 }],
  ['the only real server is replaced', { here: [5] }, { there: [6] }],
  [
    'the first real server of this node, external policy Local',
    { there: many, local: 'outside' },
    { here: [5], there: many, local: 'outside' },
  ],
  [
    'the last real server of this node, external policy Local',
    { here: [5], there: many, local: 'outside' },
    { there: many, local: 'outside' },
  ],
])('at once: %s', async (_title, before, after) => {
  const { reconciler, journal, outcome, tried } = await change(before, after);
  expect([outcome.kind, 'waitsMs' in outcome, tried()]).toEqual(['confirmed', false, false]);
  expect(journal.active).toMatchObject({ number: 1, revision: 1 });
  expect(await isAsFresh(after)).toBe(true);
  expect(await reconciler.repair()).toBe(0);
});

test.each<Row>([
  ['the last real server is removed', { here: [5] }, {}],
  ['all of several real servers are removed', { here: [5, 6], there: many }, {}],
  [
    'the first real server of this node, internal policy Local',
    { there: many },
    { here: [5], there: many, local: 'inside' },
  ],
  [
    'the last two real servers of this node, external policy Local',
    { here: [5, 6], there: many, local: 'outside' },
    { there: many, local: 'outside' },
  ],
  [
    'the last two real servers of this node, internal policy Local',
    { here: [5, 6], there: many, local: 'inside' },
    { there: many, local: 'inside' },
  ],
])('late: %s', async (_title, before, after) => {
  const { reconciler, journal, old, outcome, tried } = await change(before, after);
  const frontend = before.local === 'outside' ? 1 : 0;
  expect(outcome).toMatchObject({ waitsMs: afterMs });
  expect((await serving())[frontend]).toEqual(old[frontend]);
  nowMs = afterMs;
  expect(await reconciler.put(bundle(after), false)).not.toHaveProperty('waitsMs');
  expect([journal.active?.number, tried()]).toEqual([1, false]);
  expect(await isAsFresh(after)).toBe(true);
  expect(await reconciler.repair()).toBe(0);
});

test.each<Row>([
  ['most of several real servers are removed', { there: many }, { there: [1, 2] }],
  ['a first real server outside of the networks of pods', {}, { there: [5], net: '10.99.2' }],
  ['the first real server, with another scheduler', {}, { here: [5], scheduler: 'wrr' }],
  ['the last real server removed, with another scheduler', { here: [5] }, { scheduler: 'wrr' }],
  ['policy Local is set', { here: [5], there: many }, { here: [5], there: many, local: 'outside' }],
])('a release: %s', async (_title, before, after) => {
  const { journal, outcome, tried } = await change(before, after);
  expect([outcome.kind, journal.active?.number, tried()]).toEqual(['confirmed', 2, true]);
  expect(await isAsFresh(after)).toBe(true);
});

test('applies a first real server at once while another Service waits for the last-endpoint delay, also at a node port', async () => {
  const { reconciler, journal } = await node.start({ lastEndpointAfterMs: afterMs }, { clock });
  const idle = 'profiles/default/services/shop/idle.ipvs';
  const withPorts = (pool: readonly string[], real: readonly string[]): BundleFiles => {
    const lines = (frontend: string, ones: readonly string[]): string =>
      [`-A -t ${frontend} -s rr`, ...ones.map((one) => `-a -t ${frontend} -r ${one} -m -w 1`)]
        .map((line) => `${line}\n`)
        .join('');
    const frontends = [inside, '${host.nodePortAddresses}:30090'];
    const profile = 'profiles/default/profile.yaml';
    return new Map([
      ...bundle({}),
      [profile, (ipvsBundle.get(profile) ?? '').replace('nodePortAddresses: []', 'nodePortAddresses: [0.0.0.0/0]')],
      [file('ipvs'), frontends.map((frontend) => lines(frontend, pool)).join('')],
      [idle, lines('10.96.0.99:80', real)],
    ]);
  };
  const at = async (frontend: string): Promise<number | undefined> =>
    (await node.kernel.ipvs.observe()).servers.get(`${frontend}/TCP`)?.real.size;
  await reconciler.put(withPorts(['10.244.1.5:8080'], []), false);
  expect(await at('192.0.2.11:30090')).toBe(1);
  const after = withPorts([], ['10.244.1.6:8080']);
  expect(await reconciler.put(after, false)).toMatchObject({ kind: 'confirmed', waitsMs: afterMs });
  expect([await at('10.96.0.99:80'), await at(inside), await at('192.0.2.11:30090')]).toEqual([1, 1, 1]);
  nowMs = afterMs;
  expect(await reconciler.put(after, false)).not.toHaveProperty('waitsMs');
  expect(journal.active).toMatchObject({ number: 1, revision: 2 });
});

test('refuses first and last real servers from keys for endpoints', async () => {
  const { reconciler } = await node.start();
  const refused = { kind: 'refused', refusal: { problems: [{ code: 'RELEASE_ENDPOINTS_ONLY' }] } };
  await reconciler.put(bundle({ here: [5] }), false);
  expect(await reconciler.put(bundle({}), false, undefined, true)).toMatchObject(refused);
  await reconciler.put(bundle({}), false);
  expect(await reconciler.put(bundle({ here: [5] }), false, undefined, true)).toMatchObject(refused);
  expect(await serving()).toEqual([[], []]);
});

test('keeps an early first real server when the release is rolled back', async () => {
  const { reconciler, journal } = await node.start();
  await reconciler.put(bundle({}), false);
  await reconciler.put(bundle({ here: [5] }), false);
  let asked = 0;
  node.health = () => asked++ < 1;
  expect(await reconciler.put(bundle({ here: [5], scheduler: 'wrr' }), false)).toMatchObject({ kind: 'rolled-back' });
  expect(await isAsFresh({ here: [5] })).toBe(true);
  expect(journal.active).toMatchObject({ number: 1, revision: 1 });
});

test.each([
  ['first', 'before', {}, { here: [5] }],
  ['first', 'after', {}, { here: [5] }],
  ['last', 'before', { here: [5] }, {}],
  ['last', 'after', { here: [5] }, {}],
] as const)(
  'the %s real server: after a crash %s any call the kernel matches the journal',
  async (_which, fault, before, after) => {
    let isNew = 0;
    let at = 0;
    for (; ; at++) {
      node.end();
      node = scene();
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
      const isIn = next.journal.active?.revision === 1;
      isNew += Number(isIn);
      expect([next.journal.open, await isAsFresh(isIn ? after : before)]).toEqual([undefined, true]);
      expect(await next.reconciler.repair()).toBe(0);
      expect(await next.reconciler.put(bundle(after), false)).toMatchObject({ kind: isIn ? 'same' : 'confirmed' });
      expect(await isAsFresh(after)).toBe(true);
    }
    expect(isNew).toBeGreaterThan(0);
    expect(isNew).toBeLessThan(at);
  },
);
