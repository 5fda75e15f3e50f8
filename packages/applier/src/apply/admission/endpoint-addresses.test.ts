import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { Layered } from '@sluice/netfilter';
import { runs } from '@sluice/testing';
import { ipvsBundle } from '../../../../bundle/src/virtual/bundle.fixture.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { scene } from '../../testing/scene.fixture.ts';
import { EndpointAddresses } from './endpoint-addresses.ts';
import type { NodeState } from '../../ports/node-state.ts';

/** A state whose only rules are those of Services `n`: ClusterIP 10.96.0.n, and these endpoints. */
function stateOf(services: ReadonlyMap<number, readonly string[]>): NodeState {
  const chains = new Map<string, readonly string[]>();
  for (const [n, endpoints] of services) {
    chains.set(`SLUICE-T-${n}`, [`-A SLUICE-T-${n} -d 10.96.0.${n}/32 -p tcp -m tcp --dport 80 -j SLU-SVC-${n}`]);
    chains.set(
      `SLU-SVC-${n}`,
      endpoints.map((one) => `-A SLU-SVC-${n} -p tcp -j DNAT --to-destination ${one}:8080`),
    );
  }
  const table = { chains, jumps: [] };
  return { families: { ipv4: { nat: table, filter: { chains: new Map(), jumps: [] } } }, sysctls: new Map() };
}

/** The same in mode nftables. */
function tableOf(services: ReadonlyMap<number, readonly string[]>): NodeState {
  const frontends = [...services].map(([n, endpoints]): [string, readonly string[]] => [
    `10.96.0.${n} . tcp . 80`,
    ['cluster-ip', ...endpoints.map((one) => `endpoint ${one} 8080`)],
  ]);
  return { families: {}, nft: { settings: [], frontends: new Map(frontends) }, sysctls: new Map() };
}

test.each([
  ['of iptables', stateOf],
  ['of mode nftables', tableOf],
])('rules %s: gives the same verdict for a state after another one as for the state alone', (_title, make) => {
  const endpoint = fc.oneof(
    fc.integer({ min: 1, max: 6 }).map((n) => `10.96.0.${n}`),
    fc.constantFrom('10.244.0.1', '10.244.0.2', '127.0.0.1'),
  );
  const state = fc.array(fc.tuple(fc.integer({ min: 1, max: 6 }), fc.array(endpoint, { maxLength: 3 })), {
    maxLength: 4,
  });
  const holds = (states: readonly (readonly (readonly [number, readonly string[]])[])[]): void => {
    const one = new EndpointAddresses();
    for (const entries of states) {
      const next = make(new Map(entries));
      const fresh = new EndpointAddresses().check(next).length > 0;
      expect(one.check(next).length > 0).toBe(fresh);
      expect(one.check(next).length > 0, 'offered again').toBe(fresh);
    }
  };
  fc.assert(fc.property(fc.array(state, { maxLength: 6 }), holds), runs(500));
});

test('reads only changed chains when a ClusterIP moves to a chain of another name', () => {
  const before = stateOf(new Map(Array.from({ length: 200 }, (_, n) => [n, ['10.244.0.1']] as const)));
  const { nat, filter } = before.families.ipv4 as NonNullable<NodeState['families']['ipv4']>;
  const moved = [['SLUICE-T-5', undefined] as const, ['SLUICE-T-x', nat.chains.get('SLUICE-T-5')] as const];
  const chains = Layered.of(nat.chains);
  const one = new EndpointAddresses();
  const withNat = (table: typeof nat): NodeState => ({ ...before, families: { ipv4: { nat: table, filter } } });
  one.check(withNat({ chains, jumps: [] }));
  const after = chains.with(moved);
  const read = vi.spyOn(after, 'get');
  expect(one.check(withNat({ chains: after, jumps: [] }))).toEqual([]);
  expect(read.mock.calls.length).toBeLessThan(20);
});

test.each([
  ['far from all endpoints', '10.244.0.1', 20],
  ['near one', '10.96.0.254', 400],
])('a new ClusterIP %s: reads other frontends only where it may be one of them', (_title, endpoint, most) => {
  const services = Array.from({ length: 200 }, (_, n) => [n, [endpoint]] as const);
  const before = tableOf(new Map(services));
  const [added] = tableOf(new Map([[250, ['10.244.0.2']]])).nft?.frontends ?? [];
  const frontends = Layered.of(before.nft?.frontends ?? new Map<string, readonly string[]>());
  const one = new EndpointAddresses();
  one.check({ ...before, nft: { settings: [], frontends } });
  const after = frontends.with(added ? [added] : []);
  const read = vi.spyOn(after, 'get');
  expect(one.check({ ...before, nft: { settings: [], frontends: after } })).toEqual([]);
  expect(read.mock.calls.length).toBeLessThan(most);
  expect(read.mock.calls.length > 200).toBe(most > 200);
});

const allPlanes = [
  ['iptables', 'flat'],
  ['iptables', 'tree'],
  ['nftables', 'tree'],
] as const;

/** A bundle with two Services, of which the first has an endpoint at this address. */
function withEndpoint(mode: 'iptables' | 'nftables', address: string): ReadonlyMap<string, string> {
  const files = sampleBundle({ mode, services: { 'shop/web': [1], 'shop/cart': [2] } });
  return new Map(
    [...files].map(([path, text]) => [
      path,
      path.includes('/shop/web.') ? text.replaceAll('10.244.0.2', address) : text,
    ]),
  );
}

describe.each(allPlanes)('mode %s, layout %s', (mode, layout) => {
  test.each(['10.96.0.11', '10.96.0.12'])('refuses an endpoint at %s, and claims nothing', async (address) => {
    const node = scene();
    node.layout = layout;
    try {
      const { reconciler, journal } = await node.start();
      const problem = {
        code: 'ADDRESS_FORBIDDEN',
        message: expect.stringContaining(`${address} (it is the ClusterIP`),
      };
      expect(await reconciler.put(withEndpoint(mode, address), true)).toMatchObject({
        refusal: { problems: [problem] },
      });
      expect(journal.active).toBeUndefined();
    } finally {
      node.end();
    }
  });

  test.each(['192.0.2.11', '10.244.0.9'])('takes an endpoint at %s', async (address) => {
    const node = scene();
    node.layout = layout;
    try {
      const { reconciler } = await node.start();
      expect((await reconciler.put(withEndpoint(mode, address), true)).kind).toBe('confirmed');
    } finally {
      node.end();
    }
  });

  test('an endpoint that moves to a ClusterIP is refused, and those before stay', async () => {
    const node = scene();
    node.layout = layout;
    try {
      const { reconciler, journal } = await node.start();
      await reconciler.put(withEndpoint(mode, '10.244.0.9'), true);
      const version = journal.active?.version;
      expect((await reconciler.put(withEndpoint(mode, '10.96.0.12'), true)).kind).toBe('refused');
      expect((await reconciler.put(withEndpoint(mode, '10.96.0.12'), true)).kind).toBe('refused');
      expect(journal.active?.version).toBe(version);
      expect(await reconciler.put(withEndpoint(mode, '10.244.0.8'), true)).toMatchObject({ kind: 'confirmed' });
    } finally {
      node.end();
    }
  });
});

/** IPv6 addresses that lead to an IPv4 address of each node itself. */
const leading = ['64:ff9b::7f00:1', '64:ff9b::a9fe:a9fe', '64:ff9b:1::7f00:1', '2002:7f00:1::', '::7f00:1'];

describe.each(allPlanes)('mode %s, layout %s, IPv6', (mode, layout) => {
  test.each(leading)('refuses an endpoint at %s, which leads to the node itself', async (address) => {
    const node = scene();
    node.layout = layout;
    const families = ['ipv4', 'ipv6'];
    const files = sampleBundle({ mode, families, services: { 'shop/web': [1], 'shop/cart': [2] } });
    const put = (endpoint: string) =>
      new Map([...files].map(([path, text]) => [path, text.replaceAll('fd00:10::1', endpoint)]));
    try {
      const { reconciler } = await node.start();
      // The grammar of mode nftables has no such endpoint.
      const [code, text] =
        mode === 'nftables' ? ['RULE_REFUSED', `${address} . 8080`] : ['ADDRESS_FORBIDDEN', `${address} (it leads to `];
      const outcome = await reconciler.put(put(address), true);
      const problems = outcome.kind === 'refused' ? outcome.refusal.problems : [];
      expect(problems[0]).toMatchObject({ code, message: expect.stringContaining(text) });
      // No rule of any mode may name an IPv4-mapped address.
      expect((await reconciler.put(put('::ffff:7f00:1'), true)).kind).toBe('refused');
      expect((await reconciler.put(put('64:ff9b::c000:201'), true)).kind).toBe('confirmed');
    } finally {
      node.end();
    }
  });
});

/** 10.96.0.12, by NAT64 and by 6to4. */
const translated = ['64:ff9b::a60:c', '64:ff9b:1::a60:c', '2002:a60:c::'];

describe.each(allPlanes)('mode %s, layout %s, a ClusterIP of IPv4', (mode, layout) => {
  test.each(translated)(
    'refuses an endpoint at %s, which leads to it, also where the ClusterIP is the newer one',
    async (address) => {
      const node = scene();
      node.layout = layout;
      const bundle = (services: Readonly<Record<string, readonly number[]>>) =>
        new Map(
          [...sampleBundle({ mode, families: ['ipv4', 'ipv6'], services })].map(([path, text]) => [
            path,
            text.replaceAll('fd00:10::1', address),
          ]),
        );
      try {
        const { reconciler } = await node.start();
        expect((await reconciler.put(bundle({ 'shop/web': [1] }), true)).kind).toBe('confirmed');
        const outcome = await reconciler.put(bundle({ 'shop/web': [1], 'shop/cart': [2] }), true);
        const message = expect.stringMatching(/ \(it leads to 10\.96\.0\.12 \(\S+\), the ClusterIP of a Service\)/);
        expect(outcome).toMatchObject({ refusal: { problems: [{ code: 'ADDRESS_FORBIDDEN', message }] } });
      } finally {
        node.end();
      }
    },
  );
});

test.each(leading)('mode ipvs: refuses a server at %s, which leads to the node itself', (address) => {
  const real = new Map([[`[${address}]:8080`, { address, port: 8080, weight: 1 }]]);
  const server = { scheduler: 'rr', flags: [], real };
  const state = {
    families: {},
    sysctls: new Map(),
    ipvs: { sets: new Map(), virtualServers: new Map([['x', server]]) },
  };
  expect(new EndpointAddresses().check(state as unknown as NodeState)).toMatchObject([
    { code: 'ADDRESS_FORBIDDEN', message: expect.stringContaining(`${address} (it leads to `) },
  ]);
});

test.each(translated)('mode ipvs: refuses a server at %s, which leads to a ClusterIP', (address) => {
  const real = new Map([[`[${address}]:8080`, { address, port: 8080, weight: 1 }]]);
  const server = { family: 'ipv4', protocol: 'tcp', address: '10.96.0.12', port: 80, scheduler: 'rr', flags: [], real };
  const clusterIPs = { name: 'KUBE-CLUSTER-IP', entries: new Set(['10.96.0.12,tcp:80']) };
  const state = {
    families: {},
    sysctls: new Map(),
    ipvs: { sets: new Map([['KUBE-CLUSTER-IP', clusterIPs]]), virtualServers: new Map([['x', server]]) },
  };
  expect(new EndpointAddresses().check(state as unknown as NodeState)).toMatchObject([
    { code: 'ADDRESS_FORBIDDEN', message: expect.stringContaining(`${address} (it leads to 10.96.0.12 `) },
  ]);
});

test('mode ipvs: refuses a ClusterIP as an endpoint and allows an address of the node', async () => {
  const node = scene();
  try {
    const { reconciler } = await node.start();
    const at = (address: string) =>
      new Map(
        [...ipvsBundle].map(([path, text]) => [
          path,
          path.endsWith('/web.ipvs') ? text.replaceAll('10.244.2.6', address) : text,
        ]),
      );
    expect(await reconciler.put(at('10.96.0.99'), true)).toMatchObject({
      refusal: {
        problems: [{ code: 'ADDRESS_FORBIDDEN', message: expect.stringContaining('10.96.0.99 (it is the ClusterIP') }],
      },
    });
    expect((await reconciler.put(at('192.0.2.11'), true)).kind).toBe('confirmed');
  } finally {
    node.end();
  }
});

test('reports many endpoints as one problem that names the first few', async () => {
  const node = scene();
  try {
    const { reconciler } = await node.start();
    const files = sampleBundle({ services: { 'shop/web': Array.from({ length: 30 }, (_, n) => n + 1) } });
    const bad = new Map([...files].map(([path, text]) => [path, text.replaceAll('10.244.0.', '127.0.0.')]));
    const outcome = await reconciler.put(bad, true);
    expect(outcome).toMatchObject({ refusal: { problems: [{ message: expect.stringMatching(/, 20 more$/) }] } });
  } finally {
    node.end();
  }
});
