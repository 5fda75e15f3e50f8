import { expect, test } from 'vitest';
import { cart, cartIPv6, clusterPolicy, withoutEndpoints, withoutLocal } from '../link/cart.fixture.ts';
import { linkFlat } from '../link/flat.ts';
import type { FamilyProgram, ResolvedRules } from '../link/program.ts';
import { summarise, trace } from './trace.ts';
import { type Packet, TraceError } from '../packet/packet.ts';
import type { World } from './world.ts';

const world: World = { localAddresses: ['172.18.0.2', 'fd00:18::2'] };

const pod = { family: 'ipv4', source: '10.244.2.30', in: 'veth1', protocol: 'tcp', port: 80 } as const;
const client = { family: 'ipv4', source: '198.51.100.7', in: 'eth0', protocol: 'tcp', port: 80 } as const;
const outside = { ...client, source: '192.0.2.200' } as const;
const node = { family: 'ipv4', source: '172.18.0.2', protocol: 'tcp', port: 80 } as const;

const cluster = { destination: '10.96.7.1' };
const external = { destination: '192.0.2.50' };
const balancer = { destination: '203.0.113.9' };
const nodePort = { destination: '172.18.0.2', port: 30080 };
const localhost = { source: '127.0.0.1', destination: '127.0.0.1', port: 30080 };

const all = 'dnat 10.244.1.7:8080 | 10.244.2.9:8080 | 10.244.3.3:8080';
const here = 'dnat 10.244.2.9:8080';

function link(rules: ResolvedRules, family: 'ipv4' | 'ipv6' = 'ipv4'): FamilyProgram {
  const { program, problems } = linkFlat(rules, family);
  expect(problems).toEqual([]);
  return program;
}

type Row = readonly [title: string, packet: Packet, summary: string];

test.each<Row>([
  ['a pod reaches every endpoint through the cluster address', { ...pod, ...cluster }, all],
  [
    'a pod that is an endpoint itself is masqueraded only when it meets itself',
    { ...pod, source: '10.244.2.9', ...cluster },
    'dnat 10.244.1.7:8080 | 10.244.3.3:8080, masquerade dnat 10.244.2.9:8080',
  ],
  ['the node itself is masqueraded, since its address is no pod address', { ...node, ...cluster }, `masquerade ${all}`],
  ['another port of the cluster address is no Service', { ...pod, ...cluster, port: 81 }, 'pass'],
  ['another protocol is no Service', { ...pod, ...cluster, protocol: 'udp' }, 'pass'],
  [
    'a remembered client returns to its endpoint',
    { ...pod, ...cluster, remembers: 'KUBE-SEP-ZNEKD56SUVBWUDHI' },
    'dnat 10.244.3.3:8080',
  ],
  ['a removed endpoint is not remembered', { ...pod, ...cluster, remembers: 'KUBE-SEP-AAAAAAAAAAAAAAAA' }, all],
  ['a client from outside reaches the local endpoint with its own address', { ...client, ...external }, here],
  ['a pod reaches all endpoints through the external address', { ...pod, ...external }, all],
  [
    'the node reaches all endpoints through the external address, masqueraded',
    { ...node, ...external },
    `masquerade ${all}`,
  ],
  ['a client within the source ranges may use the load balancer', { ...client, ...balancer }, here],
  ['a client outside the source ranges is dropped', { ...outside, ...balancer }, 'drop'],
  ['a pod outside the source ranges is dropped, too', { ...pod, ...balancer }, 'drop'],
  ['the node outside the source ranges is dropped', { ...node, ...balancer }, 'drop'],
  ['the node port is open to all clients', { ...outside, ...nodePort }, here],
  ['the node port of another port is not ours', { ...outside, ...nodePort, port: 30081 }, 'pass'],
  ['a pod uses the node port', { ...pod, ...nodePort }, all],
  ['a local process uses the node port on 127.0.0.1', { ...node, ...localhost }, `masquerade ${all}`],
  ['a neighbour cannot reach what listens on 127.0.0.1', { ...outside, destination: '127.0.0.1', port: 10250 }, 'drop'],
  ['the health check port is accepted', { ...outside, ...nodePort, port: 32000 }, 'accept'],
  ['other traffic passes', { ...pod, destination: '8.8.8.8', port: 443 }, 'pass'],
])('%s', (_title, packet, summary) => {
  expect(summarise(trace(link(cart()), packet, world))).toBe(summary);
});

test.each<Row>([
  ['a client from outside finds no local endpoint', { ...client, ...balancer }, 'drop'],
  ['an outside client is dropped at the node port', { ...outside, ...nodePort }, 'drop'],
  ['a pod still reaches all of them', { ...pod, ...nodePort }, all],
  ['the cluster address does not care', { ...pod, ...cluster }, all],
])('without a local endpoint: %s', (_title, packet, summary) => {
  expect(summarise(trace(link(withoutLocal), packet, world))).toBe(summary);
});

test.each<Row>([
  ['a pod is rejected', { ...pod, ...cluster }, 'reject'],
  ['the node is rejected', { ...node, ...cluster }, 'reject'],
  ['a client of the load balancer is rejected', { ...outside, ...balancer }, 'reject'],
  ['a client of the node port is rejected', { ...outside, ...nodePort }, 'reject'],
  ['a local process, whose packet returns through lo, is rejected', { ...node, ...nodePort }, 'reject'],
  ['the health check port still answers', { ...outside, ...nodePort, port: 32000 }, 'accept'],
])('without endpoints: %s', (_title, packet, summary) => {
  expect(summarise(trace(link(withoutEndpoints), packet, world))).toBe(summary);
});

test.each<Row>([
  ['a client from outside reaches every endpoint, masqueraded', { ...client, ...external }, `masquerade ${all}`],
  ['so does a pod', { ...pod, ...nodePort }, `masquerade ${all}`],
])('with external policy Cluster: %s', (_title, packet, summary) => {
  expect(summarise(trace(link(clusterPolicy), packet, world))).toBe(summary);
});

const pod6 = { family: 'ipv6', source: 'fd00:10:244:2::30', in: 'veth1', protocol: 'tcp', port: 80 } as const;

test.each<Row>([
  [
    'a pod reaches every endpoint',
    { ...pod6, destination: 'fd00:10:96::7' },
    'dnat [fd00:10:244:1::7]:8080 | [fd00:10:244:2::9]:8080 | [fd00:10:244:3::3]:8080',
  ],
  [
    'an outside client uses the node port',
    { ...pod6, source: '2001:db8::77', in: 'eth0', destination: 'fd00:18::2', port: 30080 },
    'dnat [fd00:10:244:2::9]:8080',
  ],
  ['::1 has no node ports', { ...pod6, source: '2001:db8::77', destination: '::1', port: 30080 }, 'pass'],
  [
    'an outside client is dropped at the load balancer',
    { ...pod6, source: '2001:db8::77', destination: '2001:db8:113::9' },
    'drop',
  ],
])('IPv6: %s', (_title, packet, summary) => {
  expect(summarise(trace(link(cartIPv6(), 'ipv6'), packet, world))).toBe(summary);
});

test('three endpoints have equal shares that add up to 1', () => {
  const outcomes = trace(link(cart()), { ...pod, ...cluster }, world);
  expect(outcomes.reduce((sum, outcome) => sum + outcome.probability, 0)).toBeCloseTo(1, 12);
  for (const outcome of outcomes) expect(outcome.probability).toBeCloseTo(1 / 3, 8);
});

test('the path names the rules that decided, table by table', () => {
  const [outcome] = trace(link(cart()), { ...outside, ...balancer }, world);
  expect(outcome?.path.map((hit) => `${hit.table} ${hit.chain}`)).toEqual([
    'nat PREROUTING',
    'nat KUBE-SERVICES',
    'nat KUBE-FW-I5LIAMPLWKMBJ54B',
    'filter FORWARD',
    'filter KUBE-PROXY-FIREWALL',
  ]);
});

test('a packet that returns from -g does not continue in the chain of the goto', () => {
  const nat = {
    chains: ['KUBE-SERVICES', 'KUBE-NODEPORTS'],
    rules: ['-A KUBE-SERVICES -g KUBE-NODEPORTS', '-A KUBE-SERVICES -p tcp -j DNAT --to-destination 10.0.0.1:1'],
  };
  const program = link({ filter: { chains: [], rules: [] }, nat });
  expect(summarise(trace(program, { ...pod, ...cluster }, world))).toBe('pass');
});

const chains = (table: 'filter' | 'nat', entries: readonly (readonly [string, readonly string[]])[]): FamilyProgram => {
  const jumps = [table === 'nat' ? '-A PREROUTING -j KUBE-SERVICES' : '-A FORWARD -j KUBE-SERVICES'];
  const empty = { chains: new Map(), jumps: [] };
  return { filter: empty, nat: empty, [table]: { chains: new Map(entries), jumps } };
};

test.each<[string, FamilyProgram, string]>([
  ['a rule outside the grammar', chains('nat', [['KUBE-SERVICES', ['-A KUBE-SERVICES -j LOG']]]), 'no chain LOG'],
  ['a missing chain', chains('nat', []), 'no chain KUBE-SERVICES'],
  ['chains that form a loop', chains('nat', [['KUBE-SERVICES', ['-A KUBE-SERVICES -j KUBE-SERVICES']]]), 'form a loop'],
  ['a drop in nat', chains('nat', [['KUBE-SERVICES', ['-A KUBE-SERVICES -j DROP']]]), 'not valid in nat'],
  [
    'a masquerade before routing',
    chains('nat', [['KUBE-SERVICES', ['-A KUBE-SERVICES -j MASQUERADE']]]),
    'not valid in nat PREROUTING',
  ],
  [
    'a translation in filter',
    chains('filter', [['KUBE-SERVICES', ['-A KUBE-SERVICES -p tcp -j DNAT --to-destination 10.0.0.1:1']]]),
    'not valid in filter',
  ],
  [
    'the outgoing interface',
    chains('filter', [['KUBE-SERVICES', ['-A KUBE-SERVICES -o eth0 -j DROP']]]),
    'depends on more than addresses',
  ],
])('does not guess: %s', (_title, program, message) => {
  const run = (): unknown => trace(program, { ...pod, ...cluster }, world);
  expect(run).toThrow(TraceError);
  expect(run).toThrow(message);
});

test('a packet must have addresses of its family', () => {
  const run = (): unknown => trace(link(cart()), { ...pod, destination: 'fd00::1' }, world);
  expect(run).toThrow('"fd00::1" is not an ipv4 address');
});

test.each<[string, string, string, string]>([
  ['comes in by', '-i cali+', 'cali12', 'drop'],
  ['does not come in by', '-i cali+', 'eth0', 'pass'],
  ['comes in by another than', '! -i cali+', 'eth0', 'drop'],
])('a packet that %s an interface', (_title, match, incoming, summary) => {
  const program = chains('filter', [['KUBE-SERVICES', [`-A KUBE-SERVICES ${match} -j DROP`]]]);
  expect(summarise(trace(program, { ...pod, ...cluster, in: incoming }, world))).toBe(summary);
});
