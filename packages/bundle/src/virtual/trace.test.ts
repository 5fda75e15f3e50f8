import { expect, test } from 'vitest';
import { summarise, trace } from '../../../netfilter/src/trace/trace.ts';
import { type Packet, TraceError } from '../../../netfilter/src/packet/packet.ts';
import { ipvsNode } from './bundle.fixture.ts';

const here = ipvsNode('node-a');
const there = ipvsNode('node-b');
const both = '10.244.1.5:8080 | 10.244.2.6:8080';

const pod = { family: 'ipv4', source: '10.244.1.9', in: 'veth1', protocol: 'tcp', port: 80 } as const;
const client = { family: 'ipv4', source: '198.51.100.7', in: 'eth0', protocol: 'tcp', port: 80 } as const;
const outside = { ...client, source: '192.0.2.200' } as const;
const node = { family: 'ipv4', source: '192.0.2.11', protocol: 'tcp', port: 80 } as const;

const cluster = { destination: '10.96.0.10' };
const external = { destination: '192.0.2.50' };
const balancer = { destination: '203.0.113.9' };
const nodePort = { destination: '192.0.2.11', port: 30080 };

function outcome(on: typeof here, packet: Packet, address = '192.0.2.11'): ReturnType<typeof trace> {
  return trace(on.program, packet, { localAddresses: [address], ipvs: on.ipvs });
}

test.each<readonly [string, Packet, string]>([
  ['a pod reaches the cluster address', { ...pod, ...cluster }, `dnat ${both}`],
  [
    'a pod that meets itself is masqueraded',
    { ...pod, ...cluster, source: '10.244.1.5' },
    'dnat 10.244.2.6:8080, masquerade dnat 10.244.1.5:8080',
  ],
  ['the node is masqueraded, since its address is no pod address', { ...node, ...cluster }, `masquerade dnat ${both}`],
  ['another port of the cluster address is refused, though it is bound', { ...pod, ...cluster, port: 81 }, 'reject'],
  ['another protocol is refused, too', { ...pod, ...cluster, protocol: 'udp' }, 'reject'],
  ['a Service without endpoints is refused', { ...pod, destination: '10.96.0.99' }, 'reject'],
  ['an external address is masqueraded', { ...client, ...external }, `masquerade dnat ${both}`],
  [
    'a client with affinity returns, even to an endpoint of weight 0',
    { ...client, ...external, remembers: '10.244.3.7:8080' },
    'masquerade dnat 10.244.3.7:8080',
  ],
  ['a client within the source ranges reaches the local endpoint', { ...client, ...balancer }, 'dnat 10.244.1.5:8080'],
  ['a client outside the source ranges is dropped', { ...outside, ...balancer }, 'drop'],
  [
    'the node does not come around the source ranges by its bound address',
    { ...node, ...balancer, source: '203.0.113.9' },
    'drop',
  ],
  ['a node port is masqueraded', { ...outside, ...nodePort }, 'masquerade dnat 10.244.2.6:8080'],
  ['another port of the node is left alone', { ...outside, ...nodePort, port: 30081 }, 'pass'],
  ["a pod's own address is left alone", { ...pod, destination: '10.244.2.6', port: 8080 }, 'pass'],
])('%s', (_title, packet, summary) => {
  expect(summarise(outcome(here, packet))).toBe(summary);
});

test('policy Local falls back to all endpoints without a local one', () => {
  expect(summarise(outcome(there, { ...client, ...balancer }, '192.0.2.12'))).toBe(`dnat ${both}`);
});

test('round robin gives equal shares, weighted round robin shares by weight, and weight 0 none', () => {
  const shares = (packet: Packet): readonly (readonly [string | undefined, number])[] =>
    outcome(here, packet).map(({ to, probability }) => [to, probability] as const);
  expect(shares({ ...pod, ...cluster })).toEqual([
    ['10.244.1.5:8080', 0.5],
    ['10.244.2.6:8080', 0.5],
  ]);
  expect(shares({ ...client, ...external })).toEqual([
    ['10.244.1.5:8080', 0.75],
    ['10.244.2.6:8080', 0.25],
  ]);
});

test('the path names the virtual server and the real one', () => {
  const path = outcome(here, { ...pod, ...cluster })[0]?.path;
  expect(path?.find(({ table }) => table === 'ipvs')).toEqual({
    table: 'ipvs',
    chain: '10.96.0.10:80/TCP',
    rule: 'rr: 10.244.1.5:8080 weight 1',
  });
});

test('rules that match sets are not traced without the sets', () => {
  expect(() => trace(here.program, { ...pod, ...cluster }, { localAddresses: [] })).toThrow(TraceError);
});
