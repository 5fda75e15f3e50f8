import { expect, test } from 'vitest';
import { bundleOf } from './example.fixture.ts';
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
  const result = traceOnNode(files, { ...question, ...change });
  if (!('ways' in result)) throw new Error(result[0]?.message);
  return result;
}

test.each([
  ['a pod of the node', { from: '10.244.1.7' }, ["it comes in by pod0: 10.244.1.0/24 is the node's pod CIDR"]],
  [
    'somebody else',
    { from: '10.244.2.7' },
    ["it comes in by eth0: it is outside of the node's pod CIDR 10.244.1.0/24"],
  ],
  ['whom the interface is said', { from: '10.244.2.7', in: 'eth1' }, []],
  ['the node itself', { from: 'node' }, []],
  ['the address of the node', { from: '192.0.2.11' }, []],
] as const)('of %s nothing is assumed without saying so', (_title, change, assumed) => {
  expect(traced(flat, change).assumed).toEqual(assumed);
});

test('the node speaks to an address that it carries from that very address', () => {
  const { packet, assumed } = traced(virtual, { from: 'node' });
  expect(packet.source).toBe('10.96.0.10');
  expect(assumed).toEqual(['the node carries 10.96.0.10, and speaks to it from that address']);
});

test('both layouts give the same ways, through other chains', () => {
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

test('every rule of a Service names it, and what all share names none', () => {
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
    'a family that the profile has not',
    { family: 'ipv6', from: 'fd00::7', destination: 'fd00::1' },
    { code: 'RULE_REFUSED', object: 'Node node-1' },
  ],
] as const)('%s has no answer', (_title, change, problem) => {
  expect(traceOnNode(bundleOf('11-mixed'), { ...question, ...change })).toMatchObject([problem]);
});
