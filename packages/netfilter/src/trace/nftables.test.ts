import { expect, test } from 'vitest';
import { emptyProgram } from '../link/program.ts';
import { frontendLines } from '../nftables/frontend.ts';
import type { NftState } from '../nftables/state.ts';
import type { Packet } from '../packet/packet.ts';
import type { World } from './world.ts';
import { summarise, trace } from './trace.ts';

type Body = Parameters<typeof frontendLines>[0];

const [here, there, here6, there6] = [
  '10.244.1.5 . 8080',
  '10.244.2.7 . 8080',
  'fd00:10:244::5 . 8080',
  'fd00:10:244::7 . 8080',
];
const frontend = (body: Partial<Body>): Body => ({
  isClusterIP: false,
  ranges: [],
  endpoints: [here, there],
  local: [],
  here: ['10.244.1.5'],
  ...body,
});
const cluster = (body: Partial<Body> = {}): Body => frontend({ isClusterIP: true, ...body });
const always = frontend({ outside: 'cluster' });
const near = frontend({ outside: 'local', local: [here] });
const lonely = frontend({ outside: 'local', endpoints: [there], none: 'drop' });
const gone = frontend({ outside: 'cluster', endpoints: [], none: 'refuse' });
const six = [here6, there6];

const frontends: Readonly<Record<string, Body>> = {
  '10.96.0.10 . tcp . 80': cluster(),
  '10.96.0.10 . udp . 53': cluster(),
  'fd00:96::10 . tcp . 80': cluster({ endpoints: six }),
  'fd00::11 . tcp . 81': { ...always, endpoints: six },
  ':: . tcp . 30020': { ...always, endpoints: six },
  '10.96.0.20 . tcp . 80': cluster(),
  '203.0.113.20 . tcp . 80': always,
  '0.0.0.0 . tcp . 30020': always,
  '203.0.113.30 . tcp . 80': { ...near, ranges: ['10.244.0.0/16', '192.0.2.11', '198.51.100.0/25'] },
  '0.0.0.0 . tcp . 30030': near,
  '203.0.113.31 . tcp . 80': lonely,
  '0.0.0.0 . tcp . 30031': lonely,
  '10.96.0.40 . tcp . 80': cluster({ endpoints: [], none: 'refuse' }),
  '203.0.113.40 . tcp . 80': gone,
  '0.0.0.0 . tcp . 30040': gone,
  '10.96.0.51 . tcp . 80': cluster({ endpoints: [], none: 'drop' }),
  '10.96.0.60 . tcp . 80': cluster({ affinitySeconds: 600 }),
  '10.96.0.70 . tcp . 80': cluster({ weights: new Map([[there, 3]]) }),
  '10.96.0.71 . tcp . 80': cluster({ scheduler: 'maglev 251' }),
  '10.96.0.72 . tcp . 80': cluster({ affinitySeconds: 600, weights: new Map([[there, 3]]) }),
  '10.96.0.73 . tcp . 80': cluster({ scheduler: 'round-robin' }),
};

const settings = [
  'table 4 address',
  'pods 10.244.0.0/16',
  'pods fd00:10:244::/64',
  'keep 10.244.0.0/16',
  'keep fd00:10:244::/64',
  'node 192.0.2.0/24',
  'node 127.0.0.0/8',
  'node fd00::/64',
  'cidr 10.96.0.0/16',
];

const stateWith = (first: string, some = frontends): NftState => ({
  settings: [first, ...settings.slice(1)],
  frontends: new Map(Object.entries(some).map(([key, body]) => [key, frontendLines(body)])),
});

const worldOf = (nft: NftState): World => ({ nft, localAddresses: ['192.0.2.11', 'fd00::11'] });
const traced = (packet: Packet, first = 'table 4 address'): string =>
  summarise(trace(emptyProgram, packet, worldOf(stateWith(first))));

const pod = { family: 'ipv4', source: '10.244.1.6', in: 'cali1', protocol: 'tcp', port: 80 } as const;
const itself = { ...pod, source: '10.244.1.5' } as const;
const node = { family: 'ipv4', source: '192.0.2.11', protocol: 'tcp', port: 80 } as const;
const client = { family: 'ipv4', source: '198.51.100.7', in: 'eth0', protocol: 'tcp', port: 80 } as const;
const stranger = { ...client, source: '198.51.100.200' } as const;
const own = '192.0.2.11';
const both = 'dnat 10.244.1.5:8080 | 10.244.2.7:8080';

type Row = readonly [title: string, packet: Packet, summary: string];

test.each<Row>([
  ['a pod reaches every endpoint of a ClusterIP', { ...pod, destination: '10.96.0.10' }, both],
  ['so it does by UDP', { ...pod, destination: '10.96.0.10', protocol: 'udp', port: 53 }, both],
  [
    'an endpoint is masqueraded on its way to itself',
    { ...itself, destination: '10.96.0.10' },
    'dnat 10.244.2.7:8080, masquerade dnat 10.244.1.5:8080',
  ],
  [
    'an endpoint of another node is not: its packets to itself do not start here',
    { ...pod, source: '10.244.2.7', destination: '10.96.0.10' },
    both,
  ],
  ['the node is masqueraded at a ClusterIP', { ...node, destination: '10.96.0.10' }, `masquerade ${both}`],
  [
    'a client from outside is masqueraded at a ClusterIP',
    { ...client, destination: '10.96.0.10' },
    `masquerade ${both}`,
  ],
  ['policy Cluster masquerades clients', { ...client, destination: '203.0.113.20' }, `masquerade ${both}`],
  ['policy Cluster masquerades pods, too', { ...pod, destination: '203.0.113.20' }, `masquerade ${both}`],
  ['a node port with policy Cluster', { ...client, destination: own, port: 30_020 }, `masquerade ${both}`],
  ['the node uses its node port', { ...node, destination: own, port: 30_020 }, `masquerade ${both}`],
  [
    'a node port on loopback is closed',
    { ...node, source: '127.0.0.1', destination: '127.0.0.1', port: 30_020 },
    'pass',
  ],
  ['another machine has its own node ports', { ...client, destination: '192.0.2.12', port: 30_020 }, 'pass'],
  [
    'policy Local leads to the endpoints of the node',
    { ...client, destination: '203.0.113.30' },
    'dnat 10.244.1.5:8080',
  ],
  ['source ranges shut out others', { ...stranger, destination: '203.0.113.30' }, 'drop'],
  [
    'source ranges do not apply to the node port',
    { ...stranger, destination: own, port: 30_030 },
    'dnat 10.244.1.5:8080',
  ],
  ['policy Local: pods use all endpoints', { ...pod, destination: '203.0.113.30' }, both],
  [
    'policy Local: the node uses all endpoints, masqueraded',
    { ...node, destination: '203.0.113.30' },
    `masquerade ${both}`,
  ],
  ['policy Local without a local endpoint drops', { ...client, destination: '203.0.113.31' }, 'drop'],
  ['so does its node port', { ...client, destination: own, port: 30_031 }, 'drop'],
  ['a pod is served there', { ...pod, destination: '203.0.113.31' }, 'dnat 10.244.2.7:8080'],
  [
    'the node is served at its node port',
    { ...node, destination: own, port: 30_031 },
    'masquerade dnat 10.244.2.7:8080',
  ],
  ['no endpoints: a pod is rejected', { ...pod, destination: '10.96.0.40' }, 'reject'],
  ['no endpoints: the node is rejected', { ...node, destination: '10.96.0.40' }, 'reject'],
  ['no endpoints: a client is rejected', { ...client, destination: '203.0.113.40' }, 'reject'],
  ['no endpoints: the node port rejects', { ...client, destination: own, port: 30_040 }, 'reject'],
  ['internal policy Local without a local endpoint drops', { ...pod, destination: '10.96.0.51' }, 'drop'],
  ['another port of a ClusterIP is rejected', { ...pod, destination: '10.96.0.10', port: 81 }, 'reject'],
  ['another protocol of a ClusterIP is rejected', { ...node, destination: '10.96.0.10', protocol: 'udp' }, 'reject'],
  ['an address that no Service has is dropped', { ...pod, destination: '10.96.9.9' }, 'drop'],
  ['other traffic passes', { ...pod, destination: '192.0.2.77', port: 443 }, 'pass'],
  ['a new client of session affinity', { ...pod, destination: '10.96.0.60' }, both],
  [
    'a known client of session affinity',
    { ...pod, destination: '10.96.0.60', remembers: '10.244.2.7:8080' },
    'dnat 10.244.2.7:8080',
  ],
  ['a client of an endpoint that left', { ...pod, destination: '10.96.0.60', remembers: '10.244.9.9:8080' }, both],
  ['without affinity no client is known', { ...pod, destination: '10.96.0.10', remembers: '10.244.2.7:8080' }, both],
])('%s', (_title, packet, summary) => {
  expect(traced(packet)).toBe(summary);
});

const both6 = 'dnat [fd00:10:244::5]:8080 | [fd00:10:244::7]:8080';
const pod6 = { family: 'ipv6', source: 'fd00:10:244::6', in: 'cali1', protocol: 'tcp', port: 80 } as const;
const client6 = { ...pod6, source: '2001:db8::7', in: 'eth0' } as const;

test.each<Row>([
  ['a pod', { ...pod6, destination: 'fd00:96::10' }, both6],
  ['a client from outside', { ...client6, destination: 'fd00:96::10' }, `masquerade ${both6}`],
  ['a node port', { ...client6, destination: 'fd00::11', port: 30_020 }, `masquerade ${both6}`],
  ['an external IP that the node has itself', { ...client6, destination: 'fd00::11', port: 81 }, `masquerade ${both6}`],
  ['without a Service CIDR no address is dropped', { ...pod6, destination: 'fd00:96::99' }, 'pass'],
])('IPv6: %s', (_title, packet, summary) => {
  expect(traced(packet)).toBe(summary);
});

test.each<readonly [string, string, Packet, string]>([
  [
    'by interface: a pod',
    'table 4 interface cali*',
    { ...pod, source: '192.168.7.7', destination: '10.96.0.10' },
    both,
  ],
  [
    'by interface: a client',
    'table 4 interface cali*',
    { ...pod, in: 'eth0', destination: '10.96.0.10' },
    `masquerade ${both}`,
  ],
  ['by bridge: a pod', 'table 4 interface cni0', { ...pod, in: 'cni0', destination: '10.96.0.10' }, both],
  [
    'by bridge: an interface with a longer name',
    'table 4 interface cni0',
    { ...pod, in: 'cni01', destination: '10.96.0.10' },
    `masquerade ${both}`,
  ],
  [
    'by interface: the node is from outside',
    'table 4 interface cali*',
    { ...node, destination: '10.96.0.10' },
    `masquerade ${both}`,
  ],
  [
    'by interface: policy Local',
    'table 4 interface cali*',
    { ...pod, in: 'eth0', destination: own, port: 30_030 },
    'dnat 10.244.1.5:8080',
  ],
  [
    'masqueradeAll: a pod',
    'table 4 address masquerade-all',
    { ...pod, destination: '10.96.0.10' },
    `masquerade ${both}`,
  ],
  [
    'masqueradeAll: policy Local keeps sources',
    'table 4 address masquerade-all',
    { ...client, destination: '203.0.113.30' },
    'dnat 10.244.1.5:8080',
  ],
])('%s', (_title, table, packet, summary) => {
  expect(traced(packet, table)).toBe(summary);
});

test('each endpoint has the same share, and the path names its elements', () => {
  const outcomes = trace(
    emptyProgram,
    { ...client, destination: '203.0.113.20' },
    worldOf(stateWith('table 4 address')),
  );
  expect(outcomes.map(({ probability }) => probability)).toEqual([0.5, 0.5]);
  expect(outcomes[1]?.path).toEqual([
    { table: 'nftables', chain: 'svc4', rule: '203.0.113.20 . tcp . 80 : goto n2' },
    { table: 'nftables', chain: 'tcp4', rule: '203.0.113.20 . 80 . 1 : 10.244.2.7 . 8080' },
    { table: 'nftables', chain: 'always4', rule: '203.0.113.20 . tcp . 80' },
  ]);
});

test('rules of other programs meet what is not translated', () => {
  const jumps = ['-A FORWARD -p tcp -m tcp --dport 443 -j DROP', '-A INPUT -p tcp -m tcp --dport 443 -j DROP'];
  const program = { ...emptyProgram, filter: { chains: new Map(), jumps } };
  const nat = {
    chains: new Map(),
    jumps: ['-A PREROUTING -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.1:443'],
  };
  const world = worldOf(stateWith('table 4 address'));
  const to = (destination: string): string => summarise(trace({ ...program, nat }, { ...pod, destination }, world));
  expect([to('10.96.0.10'), to('192.0.2.77')]).toEqual([both, 'drop']);
});

test.each([
  [
    'weights',
    '10.96.0.70',
    [0.25, 0.75],
    ['svc4 10.96.0.70 . tcp . 80 : goto n4', 'tcp4 10.96.0.70 . 80 . 1 : 10.244.1.5 . 8080'],
  ],
  ['a Maglev table', '10.96.0.71', [125 / 251, 126 / 251], ['svc4 10.96.0.71 . tcp . 80 : goto m251']],
  ['session affinity with weights', '10.96.0.72', [0.25, 0.75], ['svc4 10.96.0.72 . tcp . 80 : goto s4t600']],
  ['turns', '10.96.0.73', [0.5, 0.5], ['tcp4 10.96.0.73 . 80 . 0 : 10.244.1.5 . 8080']],
])('shares are those of slots: %s', (_title, destination, shares, expected) => {
  const outcomes = trace(emptyProgram, { ...pod, destination }, worldOf(stateWith('table 1 address')));
  const found = outcomes.map(({ probability }) => probability).toSorted((a, b) => a - b);
  expect(found.map((share) => share.toFixed(9))).toEqual(shares.map((share) => share.toFixed(9)));
  const path = outcomes.find(({ to }) => to === '10.244.1.5:8080')?.path.map(({ chain, rule }) => `${chain} ${rule}`);
  expect(path).toEqual(expect.arrayContaining(expected));
});
