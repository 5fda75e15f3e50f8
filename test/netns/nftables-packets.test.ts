// @module-tag quick
import { frontendLines, type NftState, printNft, settledPlacement } from '@sluice/netfilter';
import { beforeEach, describe, expect, test } from 'vitest';
import { planNftProbation } from '../../packages/applier/src/ports/nftables/plan.ts';
import { type Cluster, type ClusterSpec, openCluster } from './cluster.ts';
import { needKernel } from './privileges.ts';
import { asLines } from './traffic-examples.ts';
import { observeAll, usualPace } from './traffic-kernel.ts';
import { nftPrograms } from './traffic-nodes.ts';
import { predict } from './traffic-trace.ts';
import type { PacketTable, Row } from './traffic-table.ts';

/**
 * The table of mode nftables in a kernel, with every feature of the mode: real connections end as the tracer says. Bundles of this mode
 * are loaded by traffic.test.ts.
 */

beforeEach(needKernel);

/** An emulated machine opens a few connections a second: it runs what depends on the kernel. */
const isGuest = process.env['SLUICE_GUEST'] === '1';
const pace = isGuest ? { atOnce: 16, silenceMs: 4_000 } : usualPace;

const podAt = (name: string, node: string, number: string, ports: readonly string[] = []) => ({
  name,
  node,
  addresses: [`10.244.${number}`, `fd00:10:244:${number.replace('.', '::')}`],
  ports,
});
const served = ['8080/tcp', '8080/udp'];

const spec: ClusterSpec = {
  nodes: ['node-1', 'node-2'].map((name, at) => ({
    name,
    addresses: [`192.0.2.1${at + 1}`, `fd00:2::1${at + 1}`],
    podCIDRs: [`10.244.${at + 1}.0/24`, `fd00:10:244:${at + 1}::/64`],
  })),
  pods: [
    podAt('a', 'node-1', '1.5', served),
    podAt('b', 'node-1', '1.6', served),
    podAt('c', 'node-2', '2.7', served),
    podAt('client', 'node-1', '1.9'),
  ],
  outside: ['198.51.100.7', '198.51.100.200', '2001:db8::7'],
};

type Body = Parameters<typeof frontendLines>[0];

const four = { a: '10.244.1.5 . 8080', b: '10.244.1.6 . 8080', c: '10.244.2.7 . 8080' } as const;
const six = { a: 'fd00:10:244:1::5 . 8080', c: 'fd00:10:244:2::7 . 8080' } as const;

const frontend = (endpoints: readonly string[], body: Partial<Body> = {}): Body => ({
  isClusterIP: false,
  ranges: [],
  local: [],
  endpoints,
  // Those of node-1.
  here: endpoints.map((one) => one.split(' . ')[0] ?? '').filter((one) => /^(?:10\.244\.1\.|fd00:10:244:1:)/.test(one)),
  ...body,
});
const cluster = (endpoints: readonly string[], body: Partial<Body> = {}): Body =>
  frontend(endpoints, { isClusterIP: true, ...body });

/** The frontends of node-1, which has pods a and b. */
function frontends(): Readonly<Record<string, Body>> {
  const always = frontend([four.a, four.c], { outside: 'cluster' });
  const always6 = frontend([six.a, six.c], { outside: 'cluster' });
  const near = frontend([four.a, four.c], { outside: 'local', local: [four.a] });
  const lonely = frontend([four.c], { outside: 'local', none: 'drop' });
  const gone = frontend([], { outside: 'cluster', none: 'refuse' });
  const all = [four.a, four.b, four.c];
  return {
    '10.96.0.10 . tcp . 80': cluster(all),
    '10.96.0.10 . udp . 53': cluster(all),
    '10.96.0.10 . sctp . 2905': cluster([four.b]),
    'fd00:10:96::a . tcp . 80': cluster([six.a, six.c]),
    'fd00:10:96::a . udp . 53': cluster([six.a, six.c]),
    '10.96.0.20 . tcp . 80': cluster([four.a, four.c]),
    '203.0.113.20 . tcp . 80': always,
    '0.0.0.0 . tcp . 30020': always,
    '0.0.0.0 . udp . 30020': always,
    'fd00:203::14 . tcp . 80': always6,
    ':: . tcp . 30020': always6,
    '203.0.113.30 . tcp . 80': { ...near, ranges: ['10.244.0.0/16', '192.0.2.11', '198.51.100.0/25'] },
    '203.0.113.32 . tcp . 80': { ...near, ranges: ['198.51.100.0/25'] },
    '0.0.0.0 . tcp . 30030': near,
    '203.0.113.31 . tcp . 80': lonely,
    '0.0.0.0 . tcp . 30031': lonely,
    '10.96.0.40 . tcp . 80': cluster([], { none: 'refuse' }),
    '203.0.113.40 . tcp . 80': gone,
    '0.0.0.0 . tcp . 30040': gone,
    '10.96.0.50 . tcp . 80': cluster([four.a]),
    '10.96.0.51 . tcp . 80': cluster([], { none: 'drop' }),
    '10.96.0.60 . tcp . 80': cluster(all, { affinitySeconds: 600 }),
    '0.0.0.0 . tcp . 30060': { ...always, affinitySeconds: 600 },
    'fd00:10:96::60 . tcp . 80': cluster([six.a, six.c], { affinitySeconds: 600 }),
  };
}

const byAddress = [
  'table 4 address',
  ...['pods', 'keep'].flatMap((kind) => [`${kind} 10.244.0.0/16`, `${kind} fd00:10:244::/48`]),
];
const common = ['node 127.0.0.0/8', 'node 192.0.2.0/24', 'node fd00:2::/64', 'cidr 10.96.0.0/16', 'health 32090'];

const stateWith = (first: readonly string[]): NftState => ({
  settings: [...first, ...common],
  frontends: new Map(Object.entries(frontends()).map(([key, body]) => [key, frontendLines(body)])),
});

/** @param path `outside → 203.0.113.20:80`; @param expected as a table has it */
function row(title: string, path: string, expected: string, more: Partial<Row> = {}): Row {
  const [from = '', target = ''] = path.split(' → ');
  const [, address = '', port = '', protocol = 'tcp'] = /^\[?(.+?)\]?:(\d+)(?:\/(udp))?$/.exec(target) ?? [];
  const to = { address, port: Number(port), protocol: protocol as 'tcp' | 'udp' };
  // Whatever no machine has comes in at the node with the table.
  const via = from === 'outside' && !address.startsWith('192.0.2.') && !address.startsWith('fd00:2:');
  return { title, from, to, expect: expected.split(' | '), stays: false, ...(via ? { via: 'node-1' } : {}), ...more };
}

const masked = (...names: readonly string[]): string => names.map((name) => `masquerade ${name}`).join(' | ');
const stays = { stays: true } as const;

/** What does not depend on how traffic of pods is detected. */
const rows: readonly Row[] = [
  row('a ClusterIP', 'client → 10.96.0.10:80', 'a | b | c'),
  row('a ClusterIP, UDP', 'client → 10.96.0.10:53/udp', 'a | b | c'),
  row('a ClusterIP, IPv6', 'client → [fd00:10:96::a]:80', 'a | c'),
  row('a ClusterIP, IPv6, UDP', 'client → [fd00:10:96::a]:53/udp', 'a | c'),
  row('an endpoint to itself', 'a → 10.96.0.10:80', 'b | c | masquerade a'),
  row('an endpoint to itself, IPv6', 'a → [fd00:10:96::a]:80', 'c | masquerade a'),
  row('the node', 'node-1 → 10.96.0.10:80', masked('a', 'b', 'c')),
  row('a client outside, ClusterIP', 'outside → 10.96.0.10:80', masked('a', 'b', 'c')),
  row('a client outside, ClusterIP, IPv6', 'outside → [fd00:10:96::a]:80', masked('a', 'c')),
  row('an external IP', 'outside → 203.0.113.20:80', masked('a', 'c')),
  row('an external IP, IPv6', 'outside → [fd00:203::14]:80', masked('a', 'c')),
  row('an external IP, from a pod', 'client → 203.0.113.20:80', masked('a', 'c')),
  row('a node port', 'outside → 192.0.2.11:30020', masked('a', 'c')),
  row('a node port, UDP', 'outside → 192.0.2.11:30020/udp', masked('a', 'c')),
  row('a node port, IPv6', 'outside → [fd00:2::11]:30020', masked('a', 'c')),
  row('a node port, from the node', 'node-1 → 192.0.2.11:30020', masked('a', 'c')),
  row('a node port on loopback', 'node-1 → 127.0.0.1:30020', 'pass'),
  row('a node port on loopback, IPv6', 'node-1 → [::1]:30020', 'pass'),
  row('a port that is no node port', 'outside → 192.0.2.11:30021', 'pass'),
  row('policy Local', 'outside → 203.0.113.30:80', 'a'),
  row('policy Local, node port', 'outside → 192.0.2.11:30030', 'a'),
  row('policy Local, from a pod', 'client → 203.0.113.30:80', 'a | c'),
  row('policy Local, from the node', 'node-1 → 203.0.113.30:80', masked('a', 'c')),
  row('source ranges', 'outside → 203.0.113.30:80', 'drop', { source: '198.51.100.200' }),
  row('source ranges, from a pod', 'client → 203.0.113.32:80', 'drop'),
  row('source ranges, from the node', 'node-1 → 203.0.113.32:80', 'drop'),
  row('source ranges, node port', 'outside → 192.0.2.11:30030', 'a', { source: '198.51.100.200' }),
  row('no local endpoint', 'outside → 203.0.113.31:80', 'drop'),
  row('no local endpoint, node port', 'outside → 192.0.2.11:30031', 'drop'),
  row('no local endpoint, from a pod', 'client → 203.0.113.31:80', 'c'),
  row('no local endpoint, node port from the node', 'node-1 → 192.0.2.11:30031', masked('c')),
  row('no endpoint', 'client → 10.96.0.40:80', 'reject'),
  row('no endpoint, from the node', 'node-1 → 10.96.0.40:80', 'reject'),
  row('no endpoint, ClusterIP from outside', 'outside → 10.96.0.40:80', 'reject'),
  row('no endpoint, external IP', 'outside → 203.0.113.40:80', 'reject'),
  row('no endpoint, node port', 'outside → 192.0.2.11:30040', 'reject'),
  row('internal policy Local', 'client → 10.96.0.50:80', 'a'),
  row('internal policy Local, no local endpoint', 'client → 10.96.0.51:80', 'drop'),
  row('another port of a ClusterIP', 'client → 10.96.0.10:81', 'reject'),
  row('another port of a ClusterIP, from the node', 'node-1 → 10.96.0.10:81', 'reject'),
  row('another port of a ClusterIP, UDP', 'client → 10.96.0.10:81/udp', 'reject'),
  row('an address that no Service has', 'client → 10.96.9.9:80', 'drop'),
  row('affinity', 'client → 10.96.0.60:80', 'a | b | c', stays),
  row('affinity, IPv6', 'client → [fd00:10:96::60]:80', 'a | c', stays),
  row('affinity, node port', 'outside → 192.0.2.11:30060', masked('a', 'c'), stays),
];

const table: PacketTable = { outside: { addresses: spec.outside, ports: [] }, pods: [], listen: {}, packets: rows };

/** The rows that end otherwise if the ClusterIP masquerades pods, too. */
const masqueraded = rows.map((one) =>
  one.to.address.startsWith('10.96.') || one.to.address.startsWith('fd00:10:96:')
    ? { ...one, expect: one.expect.map((end) => (/^[abc]$/.test(end) ? masked(end) : end)) }
    : one,
);

/** Node ports on localhost in mode nftables, as kube-proxy 1.38 has them, apart from UDP, which its listener does not serve. */
const localhost: Readonly<Record<'refused' | 'served', readonly Row[]>> = {
  refused: [
    row('a node port', 'node-1 → 127.0.0.1:30020', 'reject'),
    row('a node port, UDP', 'node-1 → 127.0.0.1:30020/udp', 'reject'),
    row('a node port, another loopback address', 'node-1 → 127.0.0.2:30020', 'reject'),
    row('a node port, IPv6', 'node-1 → [::1]:30020', 'reject'),
    row('policy Local', 'node-1 → 127.0.0.1:30030', 'reject'),
    row('no local endpoint', 'node-1 → 127.0.0.1:30031', 'reject'),
    row('no endpoint', 'node-1 → 127.0.0.1:30040', 'reject'),
    row('a port that is no node port', 'node-1 → 127.0.0.1:30021', 'pass'),
    row('a port that is no node port, IPv6', 'node-1 → [::1]:30021', 'pass'),
    row('a node port at the address of the node', 'node-1 → 192.0.2.11:30020', masked('a', 'c')),
  ],
  served: [
    row('a node port', 'node-1 → 127.0.0.1:30020', masked('a', 'c')),
    row('a node port, UDP', 'node-1 → 127.0.0.1:30020/udp', masked('a', 'c')),
    row('a node port, another loopback address', 'node-1 → 127.0.0.2:30020', 'pass'),
    row('a node port, another loopback address, UDP', 'node-1 → 127.0.0.2:30020/udp', 'reject'),
    row('a node port, IPv6', 'node-1 → [::1]:30020', 'reject'),
    row('policy Local', 'node-1 → 127.0.0.1:30030', masked('a')),
    row('no local endpoint', 'node-1 → 127.0.0.1:30031', 'reject'),
    row('no endpoint', 'node-1 → 127.0.0.1:30040', 'reject'),
    row('affinity', 'node-1 → 127.0.0.1:30060', masked('a', 'c'), stays),
    row('a port that is no node port', 'node-1 → 127.0.0.1:30021', 'pass'),
    row('a node port at the address of the node', 'node-1 → 192.0.2.11:30020', masked('a', 'c')),
    row('policy Local, at the address of the node', 'node-1 → 192.0.2.11:30030', masked('a', 'c')),
  ],
};

/** As base/sysctl.conf does. */
const routeLocalnet = ['sysctl', '-qw', 'net.ipv4.conf.all.route_localnet=1'];

test.each(['refused', 'served'] as const)('node ports on localhost are %s', async (localhostNodePorts) => {
  const packets = localhost[localhostNodePorts];
  const [first = '', ...rest] = byAddress;
  const state = stateWith([`${first} localhost-${localhostNodePorts}`, ...rest]);
  await using on = await openCluster(spec);
  await load(on, state);
  if (localhostNodePorts === 'served') await on.host('node-1').run(routeLocalnet);
  const seen = await observeAll(on, { ...table, packets }, packets, pace);
  const programs = new Map([['node-1', nftPrograms(state)]]);
  expect(asLines(packets, (one) => predict(spec, programs, one))).toEqual(asLines(packets));
  expect(asLines(packets, (one) => seen.get(one) ?? [])).toEqual(asLines(packets));
  const counters = await on.host('node-1').run(['nft', 'list', 'counters', 'table', 'inet', 'sluice']);
  for (const one of ['tcp', 'udp']) expect(counters).toMatch(new RegExp(`reject-${one} {\\s+packets [1-9]`));
});

/** CVE-2020-8558: with `route_localnet` a neighbour reaches programs that listen on loopback alone, unless a rule is against it. */
test.skipIf(isGuest)('a neighbour reaches no loopback address of a node with node ports on localhost', async () => {
  const [first = '', ...rest] = byAddress;
  await using on = await openCluster(spec);
  const [node, neighbour] = [on.host('node-1'), on.host('client')];
  for (const host of [node, neighbour]) await host.run(routeLocalnet);
  const watch = `table inet watch {
    chain in {
      type filter hook input priority 0;
      iifname != "lo" ip daddr 127.0.0.0/8 counter
    }
  }`;
  await node.run(['nft', '-f', '-'], { input: watch });
  const arrived = async (): Promise<boolean> => {
    const send = 'exec 3<>/dev/udp/127.0.0.1/30999; echo >&3; sleep 0.2';
    await neighbour.run(['bash', '-c', `(${send}) 2>/dev/null; true`]);
    return !(await node.run(['nft', 'list', 'table', 'inet', 'watch'])).includes('packets 0 ');
  };
  await neighbour.run(['ip', 'rule', 'add', 'preference', '1', 'lookup', 'local']);
  await neighbour.run(['ip', 'rule', 'add', 'preference', '0', 'to', '127.0.0.1', 'lookup', '77']);
  await neighbour.run(['ip', 'rule', 'del', 'preference', '0', 'lookup', 'local']);
  const gateway = /via (\S+)/.exec(await neighbour.run(['ip', '-4', 'route', 'show', 'default']))?.[1] ?? '';
  const through = ['via', gateway, 'dev', 'eth0', 'onlink', 'src', '10.244.1.9', 'table', '77'];
  await neighbour.run(['ip', 'route', 'add', '127.0.0.1', ...through]);
  await load(on, stateWith([`${first} localhost-served`, ...rest]));
  expect(await arrived()).toBe(false);
  await node.run(['nft', 'delete', 'table', 'inet', 'sluice']);
  expect(await arrived(), 'without the table').toBe(true);
});

async function load(on: Cluster, state: NftState): Promise<void> {
  await on.host('node-1').run(['nft', '-f', '-'], { input: printNft(state) });
}

const tables: readonly (readonly [string, readonly string[], readonly Row[]])[] = [
  ['by address', byAddress, rows],
  ['by interface', ['table 4 interface pod*'], rows],
  ['by address, all masqueraded', [`${byAddress[0]} masquerade-all`, ...byAddress.slice(1)], masqueraded],
];

describe.each(isGuest ? tables.slice(0, 2) : tables)('traffic of pods is detected %s', (_title, first, packets) => {
  test('real connections end as traced, and as the table expects', async () => {
    const state = stateWith(first);
    await using on = await openCluster(spec);
    await load(on, state);
    const seen = await observeAll(on, { ...table, packets }, packets, pace);
    const observed = asLines(packets, (one) => seen.get(one) ?? []);
    const programs = new Map([['node-1', nftPrograms(state)]]);
    expect(asLines(packets, (one) => predict(spec, programs, one))).toEqual(asLines(packets));
    expect(observed).toEqual(asLines(packets));
  });
});

test.each([
  ['an ICMP error', '', ['errors', 'errors']],
  ['a reset', ' tcp-reset', ['resets', 'errors']],
])('refuses TCP with %s, and UDP with an ICMP error', async (_title, option, expected) => {
  await using on = await openCluster(spec);
  const [first = '', ...rest] = byAddress;
  await load(on, stateWith([`${first}${option}`, ...rest]));
  const client = on.host('client');
  const watch = `table inet watch {
    counter resets { }
    counter errors { }
    chain in {
      type filter hook input priority 0;
      tcp flags rst counter name resets
      icmp type destination-unreachable counter name errors
    }
  }`;
  await client.run(['nft', '-f', '-'], { input: watch });
  const refusals: string[] = [];
  for (const protocol of ['tcp', 'udp']) {
    await client.run(['nft', 'reset', 'counters']);
    const talk = `exec 3<>/dev/${protocol}/10.96.0.10/81; echo >&3; sleep 0.2`;
    await client.run(['bash', '-c', `(${talk}) 2>/dev/null; true`]);
    const counters = await client.run(['nft', 'list', 'counters']);
    refusals.push(...[...counters.matchAll(/counter (\w+) \{\s+packets [1-9]/g)].map(([, name]) => name ?? ''));
  }
  expect(refusals).toEqual(expected);
});

/** docs/limits-modes.md: the filter does not ask the switch, so it refuses what either of both states has without endpoints. */
test.skipIf(isGuest)(
  'while a release is on probation a frontend without endpoints in either state is refused',
  async () => {
    await using on = await openCluster(spec);
    const old = stateWith(byAddress);
    const refused = frontendLines(frontend([], { outside: 'cluster', none: 'refuse' }));
    const kept = [...old.frontends].filter(([key]) => !/^(?:10\.96\.0|203\.0\.113)\.40 /.test(key));
    const fresh: NftState = { ...old, frontends: new Map([...kept, ['203.0.113.41 . tcp . 80', refused]]) };
    const held = settledPlacement(old, new Map());
    const { stage, defaults, finish } = planNftProbation({ mend: [], held, exists: true }, old, fresh);
    const change = (...steps: readonly { readonly text: string }[]): Promise<unknown> =>
      on.host('node-1').run(['nft', '-f', '-'], { input: steps.map(({ text }) => text).join('') });
    const ends = async (removed: string, removedAddress: string, added: string): Promise<readonly unknown[]> => {
      const some = [
        row('a removed ClusterIP', 'client → 10.96.0.40:80', removed),
        row('a removed external IP', 'outside → 203.0.113.40:80', removedAddress),
        row('an added external IP', 'outside → 203.0.113.41:80', added),
      ];
      const seen = await observeAll(on, { ...table, packets: some }, some, pace);
      return some.map((one) => seen.get(one)?.join());
    };
    await load(on, old);
    expect(await ends('reject', 'reject', 'pass')).toEqual(['reject', 'reject', 'pass']);
    await change(...stage);
    expect(await ends('reject', 'reject', 'reject'), 'staged').toEqual(['reject', 'reject', 'reject']);
    await change({ text: 'add element inet sluice trial4 { 0.0.0.0/0 timeout 600s }\n' });
    expect(await ends('reject', 'reject', 'reject'), 'on probation').toEqual(['reject', 'reject', 'reject']);
    await change(...defaults, ...finish);
    expect(await ends('drop', 'pass', 'reject'), 'confirmed').toEqual(['drop', 'pass', 'reject']);
  },
);

test.skipIf(isGuest)('detects a kernel that has lost one set', async () => {
  await using on = await openCluster(spec);
  await load(on, stateWith(byAddress));
  await on.host('node-1').run(['nft', 'flush', 'set', 'inet', 'sluice', 'always4']);
  const some = rows.filter(({ title }) => title.startsWith('an external IP'));
  const seen = await observeAll(on, { ...table, packets: some }, some, pace);
  const isWrong = (one: Row): boolean => asLines([one], (same) => seen.get(same) ?? [])[0] !== asLines([one])[0];
  expect(some.filter(isWrong).map(({ title }) => title)).toEqual(['an external IP', 'an external IP, from a pod']);
});
