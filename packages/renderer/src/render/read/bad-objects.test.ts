import type { Problem } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { endpoint, endpoints, lines, node, object, service, slice } from '../builders.fixture.ts';
import type { KubeObject } from '../model/kube.ts';
import { readObjects } from './read.ts';

function problemsOf(one: KubeObject): Problem[] {
  const problems: Problem[] = [];
  readObjects([one], problems);
  return problems;
}

const owner = { 'kubernetes.io/service-name': 'web' };
const behind = (...addresses: string[]) => slice('web', { endpoints: addresses.map((address) => endpoint(address)) });
const address0 = 'EndpointSlice web-1#endpoints.0.addresses.0';

test.each([
  ['no name', object('Service', { namespace: 'shop' }, {}, 's'), 'error FIELD_MISSING s#metadata.name'],
  ['a generated name', object('Service', { generateName: 'web-' }, {}, 's'), 'error FIELD_MISSING s#metadata.name'],
  ['name is a number', object('Service', { name: 7 }, {}, 's'), 'error FIELD_TYPE s#metadata.name'],
  [
    'name with a dot',
    object('Service', { name: 'a.b' }, { spec: { clusterIP: 'None' } }, 's'),
    'error NAME_INVALID s#metadata.name',
  ],
  ['name with an underscore', object('Node', { name: 'node_1' }, {}, 'n'), 'error NAME_INVALID n#metadata.name'],
  [
    'namespace with a slash',
    object('Service', { name: 'a', namespace: 'a/b' }, { spec: { clusterIP: 'None' } }, 's'),
    'error NAME_INVALID s#metadata.namespace',
  ],
  [
    'a name that goes up a directory',
    object('Endpoints', { name: '../x' }, {}, 'e'),
    'error NAME_INVALID e#metadata.name',
  ],
  [
    'slice without labels',
    object('EndpointSlice', { name: 'a' }, { addressType: 'IPv4' }, 's'),
    'warning SLICE_WITHOUT_SERVICE s#metadata.labels.kubernetes.io/service-name',
  ],
  [
    'slice with an empty owner, whose addresses are not looked at',
    slice('web', { endpoints: [endpoint('127.0.0.1')] }, { labels: { 'kubernetes.io/service-name': '' } }),
    'warning SLICE_WITHOUT_SERVICE EndpointSlice web-1#metadata.labels.kubernetes.io/service-name',
  ],
  [
    'slice of a malformed owner',
    slice('web', {}, { labels: { 'kubernetes.io/service-name': 'A b' } }),
    'error NAME_INVALID EndpointSlice web-1#metadata.labels.kubernetes.io/service-name',
  ],
  ['no addressType', slice('web', { addressType: undefined }), 'error FIELD_MISSING EndpointSlice web-1#addressType'],
  ['unknown addressType', slice('web', { addressType: 'ipv4' }), 'error FIELD_VALUE EndpointSlice web-1#addressType'],
  ['addressType FQDN', slice('web', { addressType: 'FQDN' }), 'warning OBJECT_IGNORED EndpointSlice web-1#addressType'],
  [
    'an endpoint without addresses',
    slice('web', { endpoints: [{ addresses: [] }] }),
    'error FIELD_MISSING EndpointSlice web-1#endpoints.0.addresses',
  ],
  [
    'an endpoint of two addresses',
    slice('web', { endpoints: [{ addresses: ['10.0.0.1', '10.0.0.2'] }] }),
    'warning OBJECT_IGNORED EndpointSlice web-1#endpoints.0.addresses.1',
  ],
  ['an address of the other family', behind('fd00::5'), `error ADDRESS_WRONG_FAMILY ${address0}`],
  ['no address', behind('pod-1'), `error ADDRESS_INVALID ${address0}`],
  ['a short address', behind('10.1'), `error ADDRESS_INVALID ${address0}`],
  ['loopback', behind('127.0.0.1'), `error ADDRESS_FORBIDDEN ${address0}`],
  ['link-local', behind('169.254.169.254'), `error ADDRESS_FORBIDDEN ${address0}`],
  ['multicast', behind('224.0.0.1'), `error ADDRESS_FORBIDDEN ${address0}`],
  ['the unspecified address', behind('0.0.0.0'), `error ADDRESS_FORBIDDEN ${address0}`],
  [
    'IPv6 loopback',
    slice('web', { addressType: 'IPv6', endpoints: [endpoint('::1')] }),
    `error ADDRESS_FORBIDDEN ${address0}`,
  ],
  [
    'IPv6 link-local',
    slice('web', { addressType: 'IPv6', endpoints: [endpoint('fe80::1')] }),
    `error ADDRESS_FORBIDDEN ${address0}`,
  ],
  ...['64:ff9b::7f00:1', '64:ff9b:1::a9fe:a9fe', '2002:7f00:1::1', '::7f00:1'].map(
    (address): [string, KubeObject, string] => [
      `IPv6 that leads to a forbidden address, ${address}`,
      slice('web', { addressType: 'IPv6', endpoints: [endpoint(address)] }),
      `error ADDRESS_FORBIDDEN ${address0}`,
    ],
  ),
  [
    'IPv4-mapped loopback',
    slice('web', { addressType: 'IPv6', endpoints: [endpoint('::ffff:127.0.0.1')] }),
    `error ADDRESS_INVALID ${address0}`,
  ],
  [
    'ready is a text',
    slice('web', { endpoints: [endpoint('10.0.0.1', { conditions: { ready: 'yes' } })] }),
    'error FIELD_TYPE EndpointSlice web-1#endpoints.0.conditions.ready',
  ],
  [
    'a malformed nodeName',
    slice('web', { endpoints: [endpoint('10.0.0.1', { nodeName: 'a,b' })] }),
    'error NAME_INVALID EndpointSlice web-1#endpoints.0.nodeName',
  ],
  [
    'a malformed zone',
    slice('web', { endpoints: [endpoint('10.0.0.1', { zone: 'a b' })] }),
    'error NAME_INVALID EndpointSlice web-1#endpoints.0.zone',
  ],
  [
    'a zone hint that would be two',
    slice('web', { endpoints: [endpoint('10.0.0.1', { hints: { forZones: [{ name: 'a,b' }] } })] }),
    'error NAME_INVALID EndpointSlice web-1#endpoints.0.hints.forZones.0.name',
  ],
  [
    'a hint without a name',
    slice('web', { endpoints: [endpoint('10.0.0.1', { hints: { forNodes: [{}] } })] }),
    'error FIELD_MISSING EndpointSlice web-1#endpoints.0.hints.forNodes.0.name',
  ],
  [
    'a slice port out of range',
    slice('web', { ports: [{ port: 0 }] }),
    'error PORT_INVALID EndpointSlice web-1#ports.0.port',
  ],
  [
    'a slice port without a number',
    slice('web', { ports: [{ name: 'http' }] }),
    'warning OBJECT_IGNORED EndpointSlice web-1#ports.0.port',
  ],
  [
    'two slice ports of one name',
    slice('web', { ports: [{ port: 1 }, { port: 2 }] }),
    'error FIELD_VALUE EndpointSlice web-1#ports.1.name',
  ],
  ['endpoints are a text', slice('web', { endpoints: 'none' }), 'error FIELD_TYPE EndpointSlice web-1#endpoints'],
  [
    'labels hold a number',
    slice('web', {}, { labels: { ...owner, 'kubernetes.io/service-name': 1 } }),
    'error FIELD_TYPE EndpointSlice web-1#metadata.labels.kubernetes.io/service-name',
  ],
  [
    'Endpoints on loopback',
    endpoints('web', { addresses: [{ ip: '127.0.0.1' }] }),
    'error ADDRESS_FORBIDDEN Endpoints web#subsets.0.addresses.0.ip',
  ],
  [
    'not-ready Endpoints on loopback',
    endpoints('web', { notReadyAddresses: [{ ip: '::1' }] }),
    'error ADDRESS_FORBIDDEN Endpoints web#subsets.0.notReadyAddresses.0.ip',
  ],
  [
    'Endpoints without ip',
    endpoints('web', { addresses: [{ hostname: 'a' }] }),
    'error FIELD_MISSING Endpoints web#subsets.0.addresses.0.ip',
  ],
  [
    'two ports of a subset without names',
    endpoints('web', { ports: [{ name: 'a', port: 1 }, { port: 2 }] }),
    'error FIELD_MISSING Endpoints web#subsets.0.ports.1.name',
  ],
  [
    'a node address that is none',
    node('n', { status: { addresses: [{ type: 'InternalIP', address: 'n.local' }] } }),
    'error ADDRESS_INVALID Node n#status.addresses.0.address',
  ],
  [
    'a pod CIDR that is none',
    node('n', { spec: { podCIDRs: ['10.244.1.0/24', 'x'] } }),
    'error ADDRESS_INVALID Node n#spec.podCIDRs.1',
  ],
  [
    'cores in words',
    node('n', { status: { capacity: { cpu: 'four' } } }),
    'error FIELD_VALUE Node n#status.capacity.cpu',
  ],
  [
    'no cores at all',
    node('n', { status: { capacity: { cpu: '0' } } }),
    'error FIELD_VALUE Node n#status.capacity.cpu',
  ],
  [
    'a zone with a guard in it',
    node('n', {}, { 'topology.kubernetes.io/zone': 'a @node=b' }),
    'error NAME_INVALID Node n#metadata.labels.topology.kubernetes.io/zone',
  ],
])('%s', (_title, one, expected) => {
  expect(lines(problemsOf(one))).toEqual([expected]);
});

test('refuses an old apiVersion and names the current one', () => {
  const [problem] = problemsOf({ ...slice('web'), apiVersion: 'discovery.k8s.io/v1alpha1' });
  expect(problem).toMatchObject({ code: 'API_VERSION_UNKNOWN', hint: expect.stringContaining('discovery.k8s.io/v1;') });
});

test('no text of an input reaches a message unescaped', () => {
  const [problem] = problemsOf(service('web', { ports: [{ name: 'a\u001b[31m\u202e', port: 80 }] }));
  expect(problem?.message).toContain('a\\u001b[31m\\u202e');
  const [named] = problemsOf(object('Service', { name: 'x\ny' }, { spec: { clusterIP: 'None' } }));
  expect(named?.object).toBe('Service default/"x\\ny"');
});

test.each([
  [
    'metadata',
    object('Service', { name: 'web', creationTimestamp: null, labels: null }, { spec: { clusterIP: 'None' } }),
  ],
  ['status', service('web', {}, { status: {} })],
  ['load balancer', service('web', { type: 'LoadBalancer' }, { status: { loadBalancer: {} } })],
  ['lists', service('web', { externalIPs: null, clusterIPs: null, ipFamilies: null, loadBalancerSourceRanges: null })],
  ['settings', service('web', { sessionAffinityConfig: null, type: null, ipFamilyPolicy: null })],
  [
    'conditions',
    slice('web', { endpoints: [endpoint('10.0.0.1', { conditions: null, hints: null, nodeName: null })] }),
  ],
  ['subsets', object('Endpoints', { name: 'web' }, { subsets: null })],
  ['node', object('Node', { name: 'n' }, { spec: {}, status: null })],
])('treats empty and null fields as absent: %s', (_title, one) => {
  expect(problemsOf(one)).toEqual([]);
});
