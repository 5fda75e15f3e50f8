import { orProblems } from '../bundle/node.ts';
import { describe, expect, test } from 'vitest';
import { bundleOf } from '../example.fixture.ts';
import { nftBundle } from '../nft.fixture.ts';
import type { ServiceTarget } from './service-target.ts';
import { type TraceQuestion, traceOnNode } from './trace-node.ts';

const flat = bundleOf('01-cluster-ip');
const virtual = bundleOf('10-ipvs');
const question: TraceQuestion = {
  node: 'node-1',
  family: 'ipv4',
  from: '10.244.1.7',
  destination: '10.96.0.10',
  protocol: 'tcp',
  port: 80,
  layout: 'flat',
};

function traced(files: typeof flat, change: Partial<TraceQuestion>) {
  return traceOnNode(files, { ...question, ...change });
}

test.each([
  ['a pod of the node', { from: '10.244.1.7' }, ["the packet arrives on pod0: 10.244.1.0/24 is the node's pod CIDR"]],
  [
    'a pod of another node',
    { from: '10.244.2.7' },
    ["the packet arrives on eth0: 10.244.2.7 is outside of the node's pod CIDR 10.244.1.0/24"],
  ],
  ['a source with a given interface', { from: '10.244.2.7', in: 'eth1' }, []],
  ['the node itself', { from: 'node' }, []],
  ['the address of the node', { from: '192.0.2.11' }, []],
] as const)('lists its assumptions for %s', (_title, change, assumed) => {
  expect(traced(flat, change).assumed).toEqual(assumed);
});

test('the node sends from the destination address if it carries that', () => {
  const { packet, assumed } = traced(virtual, { from: 'node' });
  expect(packet.source).toBe('10.96.0.10');
  expect(assumed).toEqual(['the source is 10.96.0.10 too: the node carries this address']);
});

test('both layouts give the same outcomes through different chains', () => {
  const ways = (layout: 'flat' | 'tree'): ReadonlySet<string> =>
    new Set(
      traced(flat, { layout }).ways.map(
        ({ verdict, to, masquerade, probability }) => `${verdict} ${to} ${masquerade} ${probability.toFixed(6)}`,
      ),
    );
  expect(ways('tree')).toEqual(ways('flat'));
  expect(JSON.stringify(traced(flat, { layout: 'tree' }).ways)).toContain('SLUICE-');
  expect(JSON.stringify(traced(flat, { layout: 'flat' }).ways)).not.toContain('SLUICE-');
});

test('rules of a Service name it, and shared rules name none', () => {
  const hits = traced(flat, {}).ways.flatMap(({ path }) => path);
  const ofService = hits.filter(({ chain }) => /^KUBE-(SVC|SEP)-/.test(chain));
  expect(new Set(ofService.map(({ service }) => service))).toEqual(new Set(['shop/web']));
  const shared = hits.filter(({ chain }) => chain === 'PREROUTING' || chain === 'KUBE-POSTROUTING');
  expect(new Set(shared.map(({ service }) => service))).toEqual(new Set([undefined]));
});

test('in mode ipvs weights are probabilities', () => {
  const shares = new Map(traced(virtual, {}).ways.map(({ to, probability }) => [to, probability]));
  expect(shares).toEqual(
    new Map([
      ['10.244.1.5:8080', 0.6],
      ['10.244.2.5:8080', 0.4],
    ]),
  );
});

test.each([
  ['a node that is not there', { node: 'node-9' }, { code: 'BUNDLE_UNKNOWN_NODE', hint: 'It has node-1, node-2' }],
  [
    'a family that the profile does not have',
    { family: 'ipv6', from: 'fd00::7', destination: 'fd00::1' },
    { code: 'RULE_REFUSED', object: 'Node node-1' },
  ],
] as const)('reports a problem for %s', (_title, change, problem) => {
  expect(orProblems(() => traced(bundleOf('11-mixed'), change))).toMatchObject([problem]);
});

describe('a Service in place of an address', () => {
  const dual = bundleOf('05-dual-stack');
  const dns = bundleOf('04-affinity-and-udp');
  const askedOf = (files: typeof flat, to: ServiceTarget, from = '10.244.1.7') =>
    traceOnNode(files, { node: 'node-1', from, layout: 'tree', ...to });
  const packetOf = (...asked: Parameters<typeof askedOf>): string => {
    const result = askedOf(...asked);
    const { destination, port, protocol } = result.packet;
    return `${destination} ${port} ${protocol}`;
  };

  test.each([
    ['by the number of its port', { service: 'shop/web', servicePort: '80' }],
    ['by the name of its port', { service: 'shop/web', servicePort: 'http' }],
    ['by its only port', { service: 'shop/web' }],
  ] as const)('is its ClusterIP, %s', (_title, to) => {
    const result = askedOf(dual, to);
    expect(result).toEqual({
      ...traced(dual, { destination: '10.96.0.50', layout: 'tree' }),
      assumed: [
        'the destination is the ClusterIP of shop/web:http, 10.96.0.50:80/tcp',
        "the packet arrives on pod0: 10.244.1.0/24 is the node's pod CIDR",
      ],
    });
  });

  test('is the ClusterIP of the family of the source', () => {
    const to = { service: 'shop/web', servicePort: '80' };
    expect(packetOf(dual, to, 'fd00:10:244:1::7')).toBe('fd00:10:96::50 80 tcp');
    expect(packetOf(dual, to, 'node')).toBe('10.96.0.50 80 tcp');
    expect(packetOf(dual, { service: 'shop/six' }, 'node')).toBe('fd00:10:96::51 53 udp');
  });

  test('is distinguished by its protocol, and found in mode ipvs', () => {
    const to = { service: 'kube-system/kube-dns', servicePort: '53', servicePortProtocol: 'udp' } as const;
    expect(packetOf(dns, to)).toBe('10.96.0.10 53 udp');
    expect(packetOf(virtual, { service: 'shop/web', servicePort: '80' })).toBe('10.96.0.10 80 tcp');
  });

  test.each([
    [
      'a port of two protocols',
      dns,
      { service: 'kube-system/kube-dns', servicePort: '53' },
      /2 ports match/,
      /kube-dns:dns at 10.96.0.10:53\/udp, kube-system\/kube-dns:dns-tcp at/,
    ],
    [
      'a missing port',
      dual,
      { service: 'shop/web', servicePort: '81' },
      /does not have this port/,
      /shop\/web:http at 10.96.0.50:80\/tcp/,
    ],
    ['a missing family', dual, { service: 'shop/six' }, /no ipv4 address/, /\[fd00:10:96::51\]:53\/udp/],
    ['a missing Service', dual, { service: 'shop/none' }, /no ClusterIP of shop\/none/, /It has shop\/six, shop\/web;/],
  ] as const)('with %s is a problem that lists the existing ports', (_title, files, to, message, hint) => {
    expect(orProblems(() => askedOf(files, to))).toEqual([
      expect.objectContaining({
        code: 'INPUT_EMPTY',
        message: expect.stringMatching(message),
        hint: expect.stringMatching(hint),
      }),
    ]);
  });
});

test('elements of mode nftables name their Service', () => {
  const [way] = traced(nftBundle, { from: 'node', destination: '192.0.2.11', port: 30_090 }).ways;
  expect(way?.path).toEqual([
    { table: 'nftables', chain: 'svc4', rule: '0.0.0.0 . tcp . 30090 : goto pn2', service: 'shop/gate' },
    { table: 'nftables', chain: 'tcp4', rule: '0.0.0.0 . 30090 . 0 : 10.244.1.30 . 8080', service: 'shop/gate' },
    { table: 'nftables', chain: 'near4', rule: '0.0.0.0 . tcp . 30090', service: 'shop/gate' },
  ]);
  const [outside] = traced(nftBundle, { from: '203.0.113.7', destination: '203.0.113.9' }).ways;
  expect(outside).toMatchObject({
    verdict: 'drop',
    path: [{ chain: 'allow4', rule: 'no 203.0.113.9 . tcp . 80 . 203.0.113.7' }],
  });
});
