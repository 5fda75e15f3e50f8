import type { BundleFiles } from '@sluice/bundle';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ipvsBundle } from '../../../../bundle/src/virtual/bundle.fixture.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { type Scene, scene, steppingClock } from '../../testing/scene.fixture.ts';

/** Bundles signed by keys for endpoints: `Reconciler.put` with `onlyEndpoints`. */

let node: Scene;
beforeEach(() => {
  node = scene();
  node.layout = 'tree';
});
afterEach(() => node.end());

const families = ['ipv4', 'ipv6'];
const before = { 'shop/web': [1, 2, 3, 4], 'shop/cart': [9] };
const bundle = (services: Readonly<Record<string, readonly number[]>>, more = {}): BundleFiles =>
  sampleBundle({ services, families, ...more });
const edited = (from: string, to: string): BundleFiles =>
  new Map(
    [...bundle({ ...before, 'shop/web': [1, 2, 3, 5] })].map(([path, text]) => [path, text.replaceAll(from, to)]),
  );
const endpoints = (): readonly string[] =>
  [...new Set(node.kernel.save('ipv4').match(/(?<=--to-destination )\S+/g))].toSorted();
const [old, updated] = [
  ['10.244.0.10:8080', '10.244.0.2:8080', '10.244.0.3:8080', '10.244.0.4:8080', '10.244.0.5:8080'],
  ['10.244.0.10:8080', '10.244.0.2:8080', '10.244.0.3:8080', '10.244.0.4:8080', '10.244.0.6:8080'],
];

test('applies other endpoints at once, as a revision of the active generation', async () => {
  const { reconciler, journal } = await node.start();
  await reconciler.put(bundle(before), false);
  const after = bundle({ ...before, 'shop/web': [1, 2, 3, 5] });
  expect(await reconciler.put(after, false, undefined, true)).toMatchObject({ kind: 'confirmed' });
  expect(journal.active).toMatchObject({ number: 1, revision: 1 });
  expect(endpoints()).toEqual(updated);
});

test.each([
  ['a new Service', bundle({ ...before, 'shop/web': [1, 2, 3, 5], 'shop/new': [7] }), updated],
  ['a removed Service', bundle({ 'shop/web': [1, 2, 3, 5] }), updated],
  ['another port of the endpoints', edited(':8080', ':9443'), old],
  ['another port of the Services', edited('--dport 80 ', '--dport 81 '), updated],
  ['another mark', edited('0x4000', '0x8000'), updated],
  [
    'the same rules in another order',
    edited(
      '-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000\n',
      '-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000\n-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n',
    ),
    // With such rules each endpoint needs a chain of its own, so other rules lead to them.
    old,
  ],
  ['a sysctl', bundle(before, { sysctls: ['net.ipv4.conf.all.route_localnet = 1'] }), old],
  ['the removal of most endpoints of a Service', bundle({ ...before, 'shop/web': [1] }), old],
] as const)('refuses %s, and applies allowed endpoints of the same bundle', async (_title, after, wanted) => {
  const { reconciler, journal } = await node.start();
  await reconciler.put(bundle(before), false);
  for (const way of ['by itself', 'by hand']) {
    expect(await reconciler.put(after, way === 'by hand', undefined, true)).toMatchObject({
      kind: 'refused',
      refusal: { problems: [{ code: 'RELEASE_ENDPOINTS_ONLY' }] },
    });
  }
  expect(await reconciler.preview(after, true)).toMatchObject({ problems: [{ code: 'RELEASE_ENDPOINTS_ONLY' }] });
  expect(endpoints()).toEqual(wanted);
  expect(journal.active?.number).toBe(1);
  expect(await reconciler.put(after, false), 'signers of releases may').toMatchObject({ kind: 'confirmed' });
});

/** Rules as `sluice render` writes them for Services with session affinity. */
const full = (services: Readonly<Record<string, readonly number[]>>): BundleFiles =>
  new Map([...bundle(services)].map(([path, text]) => [path, path.includes('/services/') ? withAffinity(text) : text]));

function withAffinity(text: string): string {
  const inCluster = text.includes('[fd00') ? 'fd00:10::/56' : '10.244.0.0/16';
  const choice = /^-A (KUBE-SVC-\S+) .*"(?: -m statistic .*)? -j (KUBE-SEP-\S+)$/gm;
  const again = [...text.matchAll(choice)].map(
    ([, chain, sep]) => `-A ${chain} -m recent --name ${sep} --rcheck --seconds 60 --reap -j ${sep}\n`,
  );
  const [, chain] = /^-A (KUBE-SVC-\S+)/m.exec(text) ?? [];
  const first = `-A ${chain} ! -s ${inCluster} -j KUBE-MARK-MASQ\n`;
  return text
    .replaceAll(/^-A KUBE-SEP-.* -j KUBE-MARK-MASQ\n/gm, '')
    .replace(/^-A KUBE-SVC-/m, (all) => `${first}${again.join('')}${all}`)
    .replaceAll(
      /^(-A (KUBE-SEP-\S+) .*)( -m tcp -p tcp -j DNAT --to-destination \[?(.+?)\]?:8080)$/gm,
      '-A $2 -s $4 -j KUBE-MARK-MASQ\n$1 -m recent --name $2 --set$3',
    );
}

/** Each file of a Service changed. */
const changed = (files: BundleFiles, change: (text: string) => string): BundleFiles =>
  new Map([...files].map(([path, text]) => [path, path.includes('/services/') ? change(text) : text]));

const inCluster = /^-A KUBE-SVC-\S+ ! -s \S+ -j KUBE-MARK-MASQ\n/m;

describe.each(['tree', 'flat'] as const)('with session affinity, in layout %s', (layout) => {
  beforeEach(() => {
    node.layout = layout;
  });
  const after = full({ ...before, 'shop/web': [1, 2, 3, 5] });

  test('applies other endpoints', async () => {
    const { reconciler, journal } = await node.start();
    await reconciler.put(full(before), false);
    expect(await reconciler.put(after, false, undefined, true)).toMatchObject({ kind: 'confirmed' });
    expect([journal.active?.number, journal.active?.revision, endpoints()]).toEqual([1, 1, updated]);
  });

  test.each<readonly [string, (text: string) => string]>([
    ['no endpoint is ever chosen', (text) => text.replaceAll(/--probability \S+/g, '--probability 0.0000000000')],
    ['the first endpoint is always chosen', (text) => text.replace(/(?<=--probability )\S+/, '1.0000000000')],
    [
      'the last endpoint has a probability',
      (text) => text.replace(/(-> \S+") (?=-j KUBE-SEP-)/, '$1 -m statistic --mode random --probability 0.5000000000 '),
    ],
    [
      'one endpoint is also chosen in the place of another',
      (text) => text.replace(/(--probability 0\.50* -j (KUBE-SEP-\S+)[^]*-> \S+" -j )KUBE-SEP-\S+/, '$1$2'),
    ],
    [
      'clients are masqueraded after the choice of an endpoint',
      (text) => text.replace(inCluster, '').replace('COMMIT', `${inCluster.exec(text)?.[0]}COMMIT`),
    ],
    [
      'all clients of an endpoint are masqueraded',
      (text) => text.replaceAll(/(-A KUBE-SEP-\S+ -s) 10\.\S+/g, '$1 10.0.0.0/8'),
    ],
    ['an endpoint masquerades another', (text) => text.replace(' -s 10.244.0.6 ', ' -s 10.244.0.2 ')],
    ['no rule searches for known clients', (text) => text.replaceAll(/^.* --rcheck .*\n/gm, '')],
    ['the list of one endpoint is not searched', (text) => text.replace(/^.* --rcheck .*\n/m, '')],
    [
      'an endpoint has the list of another',
      (text) => text.replace(/(?<=--name )KUBE-SEP-\S+(?= --rcheck.*\n.*--name (\S+))/, '$1'),
    ],
    ['lists are searched in another order', (text) => text.replace(/^(.* --rcheck .*\n)(.* --rcheck .*\n)/m, '$2$1')],
    ['clients are kept for longer', (text) => text.replaceAll('--seconds 60', '--seconds 61')],
    ['no endpoint remembers its clients', (text) => text.replaceAll(/ -m recent --name \S+ --set/g, '')],
    ['an endpoint does not reach itself', (text) => text.replaceAll(/^-A KUBE-SEP-.*MASQ\n/gm, '')],
    [
      'a new endpoint does not reach itself',
      (text) => text.replace(/^-A KUBE-SEP-\S+ -s (10.244.0.6|fd00:10::5) .*\n/m, ''),
    ],
    [
      'one is masqueraded after its address',
      (text) => text.replace(/^(-A KUBE-SEP-.*MASQ\n)(-A KUBE-SEP-.*\n)/m, '$2$1'),
    ],
    ['the same endpoint has two chains', (text) => text.replaceAll('10.244.0.6:', '10.244.0.4:')],
  ])('refused: %s', async (_title, change) => {
    const { reconciler, journal } = await node.start();
    await reconciler.put(full(before), false);
    const rules = node.kernel.save('ipv4');
    const bad = changed(after, change);
    expect(bad).not.toEqual(after);
    expect(await reconciler.put(bad, false, undefined, true)).toMatchObject({
      kind: 'refused',
      refusal: { problems: [{ code: 'RELEASE_ENDPOINTS_ONLY' }] },
    });
    expect([journal.active?.number, journal.active?.version]).toEqual([1, expect.anything()]);
    expect(node.kernel.save('ipv4')).toBe(rules);
    expect(await reconciler.put(bad, false), 'signers of releases may').toMatchObject({ kind: 'confirmed' });
    expect(journal.active?.number).toBe(2);
  });
});

test.each(['tree', 'flat'] as const)(
  'keeps the order of rules for one address when endpoints change, in layout %s',
  async (layout) => {
    node.layout = layout;
    const { reconciler } = await node.start();
    const some = ['-s 10.9.0.0/16 -j RETURN', '-s 10.9.1.0/24 -j KUBE-MARK-MASQ'].map(
      (rest) => `-A KUBE-SERVICES -d 10.96.0.11 -m tcp -p tcp --dport 80 ${rest}`,
    );
    const ordered = (own: readonly number[], extraNat: readonly string[]): BundleFiles =>
      sampleBundle({ services: { ...before, 'shop/web': own }, extraNat });
    expect(await reconciler.put(ordered([1, 2], some), false)).toMatchObject({ kind: 'confirmed' });
    expect(await reconciler.put(ordered([1, 3], some.toReversed()), false, undefined, true)).toMatchObject({
      kind: 'refused',
      refusal: { problems: [{ code: 'RELEASE_ENDPOINTS_ONLY' }] },
    });
    expect(await reconciler.put(ordered([1, 4], some), false, undefined, true)).toMatchObject({ kind: 'confirmed' });
  },
);

describe('mode ipvs', () => {
  const virtual = (real: readonly string[]): BundleFiles => {
    const lines = real.map((text) => `-a -t 10.96.0.50:80 -r ${text.replace(' -w', ' -m -w')}`);
    const text = ['# shop/pool ClusterIP', '-A -t 10.96.0.50:80 -s wrr', ...lines].map((line) => `${line}\n`).join('');
    return new Map([...ipvsBundle, ['profiles/default/services/shop/pool.ipvs', text]]);
  };
  const [one, two, three] = ['10.244.1.5:8080 -w 1', '10.244.1.6:8080 -w 1', '10.244.1.7:8080 -w 1'];

  test.each([
    ['another endpoint', [one, two, '10.244.1.8:8080 -w 1'], 'confirmed'],
    ['other weights', [one, two, '10.244.1.7:8080 -w 3'], 'confirmed'],
    ['one that gets no new connections', [one, two, '10.244.1.7:8080 -w 0'], 'confirmed'],
    ['most get no new connections', [one, '10.244.1.6:8080 -w 0', '10.244.1.7:8080 -w 0'], 'refused'],
    ['none gets new connections', [one, two, three].map((text) => text.replace('-w 1', '-w 0')), 'refused'],
    [
      'most get no new connections, with new ones in their place',
      ['10.244.1.8:8080 -w 1', ...[one, two, three].map((text) => text.replace('-w 1', '-w 0'))],
      'refused',
    ],
  ] as const)('%s', async (_title, real, kind) => {
    const { reconciler } = await node.start();
    await reconciler.put(virtual([one, two, three]), false);
    expect(await reconciler.put(virtual(real), false, undefined, true)).toMatchObject({ kind });
  });

  test('delays a weight of 0 for all real servers like the last endpoint', async () => {
    const { reconciler } = await node.start({ lastEndpointAfterMs: 10_000 });
    await reconciler.put(virtual([one, two]), false);
    const none = [one, two].map((text) => text.replace('-w 1', '-w 0'));
    expect(await reconciler.put(virtual(none), false)).toMatchObject({ waitsMs: 10_000 });
  });
});

test('allows all endpoints of a Service to be replaced at once', async () => {
  const { reconciler } = await node.start();
  await reconciler.put(bundle(before), false);
  const outcome = await reconciler.put(bundle({ ...before, 'shop/web': [5, 6, 7, 8] }), false, undefined, true);
  expect(outcome).toMatchObject({ kind: 'confirmed', generation: { number: 1, revision: 1 } });
});

describe.each(['flat', 'tree'] as const)('the networks of endpoints, in layout %s', (layout) => {
  /** The first endpoint of shop/web at another address. */
  const moved = (address: string): BundleFiles =>
    new Map(
      [...bundle(before)].map(([path, text]) => [
        path,
        path.includes('shop/web.iptables')
          ? text.replaceAll('10.244.0.2:', `${address}:`).replaceAll('-s 10.244.0.2 ', `-s ${address} `)
          : text,
      ]),
    );

  test.each([
    ['another pod', '10.244.0.77', 'confirmed'],
    ['a Node of the release', '192.0.2.12', 'confirmed'],
    ['the metadata service of a cloud', '169.254.169.254', 'refused'],
    ['a host elsewhere', '8.8.8.8', 'refused'],
    ['a host beside the Nodes', '192.0.2.99', 'refused'],
    ['another Service', '10.96.0.12', 'refused'],
    ['the API server', '10.96.0.1', 'refused'],
    ['no address', '0.0.0.0', 'refused'],
    ['all hosts', '224.0.0.1', 'refused'],
    ['the node itself, by loopback', '127.0.0.1', 'refused'],
  ] as const)('a key for endpoints sends a Service to %s: %s is %s', async (_title, address, kind) => {
    node.layout = layout;
    node.networks = ['10.244.0.0/16', '192.0.2.11', '192.0.2.12'];
    const { reconciler } = await node.start();
    await reconciler.put(bundle(before), false);
    const outcome = await reconciler.put(moved(address), false, undefined, true);
    expect(outcome.kind).toBe(kind);
    expect(endpoints().includes(`${address}:8080`)).toBe(kind === 'confirmed');
    expect(node.events.includes('in-kernel') || kind === 'refused').toBe(true);
  });

  test.each([
    ['a Service', '10.96.0.12', 'it is the ClusterIP of a Service'],
    ['loopback', '127.0.0.1', 'it is a loopback address'],
    ['link-local', '169.254.169.254', 'it is a link-local address'],
    ['multicast', '224.0.0.1', 'it is a multicast address'],
    ['no address', '0.0.0.0', 'it is the unspecified address'],
  ])('refuses an endpoint at %s: %s', async (_title, address, why) => {
    node.layout = layout;
    const { reconciler } = await node.start();
    for (const active of [[], [bundle(before)]]) {
      for (const files of active) await reconciler.put(files, true);
      await reconciler.put(moved(address), true);
      // As the daemon does at every scan.
      const outcome = await reconciler.put(moved(address), true);
      const [problem] = outcome.kind === 'refused' ? outcome.refusal.problems : [];
      expect(problem).toMatchObject({
        code: 'ADDRESS_FORBIDDEN',
        message: expect.stringContaining(`${address} (${why})`),
      });
    }
  });

  test('refuses a new Service whose ClusterIP is the address of an endpoint', async () => {
    node.layout = layout;
    const { reconciler } = await node.start();
    const pod = (files: BundleFiles): BundleFiles =>
      new Map([...files].map(([path, text]) => [path, text.replaceAll('10.244.0.2', '10.96.0.13')]));
    expect((await reconciler.put(pod(bundle(before)), true)).kind).toBe('confirmed');
    const more = pod(bundle({ ...before, 'shop/new': [7] }));
    expect(await reconciler.put(more, true)).toMatchObject({ refusal: { problems: [{ code: 'ADDRESS_FORBIDDEN' }] } });
  });

  test('applies the bounds to updates during probation, too', async () => {
    node.layout = layout;
    node.networks = ['10.244.0.0/16'];
    const probation = { seconds: 5, deadmanSeconds: 30, mode: 'auto', decisionSeconds: 60, sources: [] } as const;
    const { reconciler } = await node.start({ probation }, { clock: steppingClock() });
    await reconciler.put(bundle(before), false);
    const left = [moved('8.8.8.8')];
    const offers = {
      arrival: () => (left.length > 0 ? Promise.resolve() : new Promise<never>(() => undefined)),
      look: async () => {
        const files = left.shift();
        return files && { files, onlyEndpoints: true };
      },
    };
    expect((await reconciler.put(bundle({ ...before, 'shop/new': [7] }), false, offers)).kind).toBe('confirmed');
    expect(left).toEqual([]);
    expect(endpoints()).not.toContain('8.8.8.8:8080');
  });
});

test('refuses an update on a node without a generation', async () => {
  const { reconciler } = await node.start();
  expect(await reconciler.put(bundle(before), false, undefined, true)).toMatchObject({ kind: 'refused' });
  expect(endpoints()).toEqual([]);
});
