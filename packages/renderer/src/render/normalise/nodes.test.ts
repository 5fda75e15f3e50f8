import { expect, test } from 'vitest';
import { config, endpoint, lines, modelOf, node, normalised, profile, service, slice } from '../builders.fixture.ts';
import type { LabelSelector } from '../model/config.ts';
import { readQuantity } from '../read/node.ts';
import { endpointOnlyNodesMax, selectorMatches } from './nodes.ts';

const onNodes = (...names: string[]) =>
  slice('web', { endpoints: names.map((nodeName, index) => endpoint(`10.0.0.${index + 1}`, { nodeName })) });

test('a node exists when a Node, the config or an endpoint names it', () => {
  const nodes = [
    {
      name: 'of-config',
      labels: { 'topology.kubernetes.io/zone': 'c' },
      addresses: ['192.0.2.5', 'fd00::5'],
      podCIDRs: [],
      cores: 2,
    },
  ];
  const { model, problems } = normalised([service('web'), onNodes('b', 'a', 'of-config', 'n'), node('n')], {
    config: config({ nodes }),
  });
  expect(model.nodes).toEqual([
    { name: 'a', profile: 'default', address: {}, podCIDR: {} },
    { name: 'b', profile: 'default', address: {}, podCIDR: {} },
    {
      name: 'n',
      profile: 'default',
      zone: 'a',
      cores: 4,
      address: { ipv4: '192.0.2.11' },
      podCIDR: { ipv4: '10.244.1.0/24' },
    },
    {
      name: 'of-config',
      profile: 'default',
      zone: 'c',
      cores: 2,
      address: { ipv4: '192.0.2.5', ipv6: 'fd00::5' },
      podCIDR: {},
    },
  ]);
  expect(lines(problems)).toEqual(['note NODE_UNKNOWN -']);
  expect(problems[0]?.message).toContain('2 nodes are unknown: only endpoints name a, b');
});

test('ignores node names in endpoints of a missing Service', () => {
  expect(modelOf([service('other'), onNodes('a')]).nodes).toEqual([]);
});

test('ignores other node names in endpoints if all Nodes of the cluster are known', () => {
  const { model, problems } = normalised([service('web'), onNodes('a', 'n'), node('n')], { snapshot: true });
  expect(model.nodes.map(({ name }) => name)).toEqual(['n']);
  expect(problems.map(({ message }) => message)).toEqual([
    'Cannot write node.yaml for a node: the cluster has no such Node, only endpoints name a',
  ]);
  expect(modelOf([service('web'), onNodes('a')], { snapshot: true }).nodes).toHaveLength(1);
});

test('limits nodes that only endpoints name, and reports the Service with too many', () => {
  const many = slice('many', {
    endpoints: Array.from({ length: endpointOnlyNodesMax }, (_, index) =>
      endpoint('10.0.1.1', { nodeName: `n${index}` }),
    ),
  });
  const { problems, model } = normalised([
    service('many', { clusterIP: '10.96.0.2' }),
    many,
    service('web'),
    onNodes('a'),
  ]);
  const errors = problems.filter(({ level }) => level === 'error');
  expect(errors).toMatchObject([{ code: 'INPUT_TOO_LARGE', object: 'EndpointSlice shop/many-1' }]);
  expect(model.nodes.map(({ name }) => name)).toEqual(['a']);
  expect(modelOf([service('many'), many]).nodes).toHaveLength(endpointOnlyNodesMax);
});

test('InternalIP comes before ExternalIP, per family, and podCIDRs before podCIDR', () => {
  const addresses = [
    { type: 'Hostname', address: 'n' },
    { type: 'ExternalIP', address: '203.0.113.1' },
    { type: 'ExternalIP', address: '2001:db8::1' },
    { type: 'InternalIP', address: '192.0.2.1' },
    { type: 'InternalIP', address: '192.0.2.2' },
  ];
  const spec = { podCIDR: '10.9.0.0/24', podCIDRs: ['10.244.1.0/24', 'fd00:10::/64'] };
  expect(modelOf([node('n', { spec, status: { addresses } })]).nodes).toMatchObject([
    { address: { ipv4: '192.0.2.1', ipv6: '2001:db8::1' }, podCIDR: { ipv4: '10.244.1.0/24', ipv6: 'fd00:10::/64' } },
  ]);
});

test('a Node takes precedence over the config, which fills its gaps', () => {
  const nodes = [
    {
      name: 'n',
      labels: { role: 'edge', 'topology.kubernetes.io/zone': 'x' },
      addresses: ['192.0.2.99', 'fd00::9'],
      podCIDRs: ['10.1.0.0/24'],
      cores: 64,
    },
  ];
  const profiles = [profile('edge', { nodeSelector: { matchLabels: { role: 'edge' } } }), profile('default')];
  expect(modelOf([node('n', { spec: {} })], { config: config({ nodes, profiles }) }).nodes).toEqual([
    {
      name: 'n',
      profile: 'edge',
      zone: 'a',
      cores: 4,
      address: { ipv4: '192.0.2.11', ipv6: 'fd00::9' },
      podCIDR: { ipv4: '10.1.0.0/24' },
    },
  ]);
});

test('a node takes the first profile that matches it', () => {
  const profiles = [
    profile('zone-b', { nodeSelector: { matchLabels: { 'topology.kubernetes.io/zone': 'b' } } }),
    profile('zoned', {
      nodeSelector: { matchExpressions: [{ key: 'topology.kubernetes.io/zone', operator: 'Exists' }] },
    }),
    profile('rest'),
  ];
  const nodes = modelOf([node('n-a'), node('n-b', {}, { 'topology.kubernetes.io/zone': 'b' }), node('n-0', {}, {})], {
    config: config({ profiles }),
  }).nodes;
  expect(nodes.map((one) => `${one.name} ${one.profile}`)).toEqual(['n-0 rest', 'n-a zoned', 'n-b zone-b']);
});

const labels = new Map([['disk', 'ssd']]);
const expression = (
  key: string,
  operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist',
  values?: string[],
): LabelSelector => ({
  matchExpressions: [{ key, operator, ...(values && { values }) }],
});

test.each<[string, LabelSelector, boolean]>([
  ['nothing', {}, true],
  ['an equal label', { matchLabels: { disk: 'ssd' } }, true],
  ['another value', { matchLabels: { disk: 'hdd' } }, false],
  ['a label that is not there', { matchLabels: { constructor: 'x' } }, false],
  ['one of some values', expression('disk', 'In', ['hdd', 'ssd']), true],
  ['none of some values', expression('disk', 'NotIn', ['ssd']), false],
  ['none of some values of no label', expression('gpu', 'NotIn', ['a']), true],
  ['one of some values of no label', expression('gpu', 'In', ['a']), false],
  ['a label that exists', expression('disk', 'Exists'), true],
  ['a label that must not exist', expression('disk', 'DoesNotExist'), false],
])('a selector for %s', (_title, selector, expected) => {
  expect(selectorMatches(selector, labels)).toBe(expected);
});

test.each([
  ['4', 4],
  ['3920m', 3.92],
  ['1.5', 1.5],
  ['.5', 0.5],
  ['2e1', 20],
  ['1k', 1000],
  ['4Ki', undefined],
  ['-1', undefined],
  ['', undefined],
  ['4 cores', undefined],
  ['0x10', undefined],
])('the quantity %j is %j', (text, expected) => {
  expect(readQuantity(text)).toBe(expected);
});

test.each([
  ['whole', '4', 4],
  ['held back', '3920m', 4],
  ['a number', 8, 8],
])('cores that are %s round up', (_title, cpu, cores) => {
  expect(modelOf([node('n', { status: { capacity: { cpu } } })]).nodes[0]?.cores).toBe(cores);
});
