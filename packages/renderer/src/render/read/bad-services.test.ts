import type { Problem } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { type Changes, lines, service } from '../builders.fixture.ts';
import type { Json } from '../model/kube.ts';
import { readObjects } from './read.ts';

const port = (more: Record<string, Json>): Changes => ({ ports: [{ name: 'http', port: 80, ...more }] });
const twoPorts = (first: Record<string, Json>, second: Record<string, Json>): Changes => ({
  ports: [
    { name: 'a', port: 80, ...first },
    { name: 'b', port: 81, ...second },
  ],
});
const nodePort: Changes = { type: 'NodePort' };
const balancer: Changes = { type: 'LoadBalancer' };
const ingress = (entry: Record<string, Json>): Changes => ({ status: { loadBalancer: { ingress: [entry] } } });

test('reports only the first of very many unknown fields', () => {
  const many = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`x${index}`, index]));
  const problems: Problem[] = [];
  readObjects([service('web', many)], problems);
  expect(problems).toHaveLength(20);
});

/** What is wrong, the spec's changes, and the one problem: level, code and path. `more` changes the object around the spec. */
const rows: readonly (readonly [string, Changes, string, Changes?])[] = [
  ['spec is a list', {}, 'error FIELD_TYPE spec', { spec: [] }],
  ['ports are a mapping', { ports: {} }, 'error FIELD_TYPE spec.ports'],
  ['a port is a number', { ports: [80] }, 'error FIELD_TYPE spec.ports.0'],
  ['targetport', port({ targetport: 8080 }), 'warning FIELD_UNKNOWN spec.ports.0.targetport'],
  ['selectors', { selectors: { app: 'web' } }, 'warning FIELD_UNKNOWN spec.selectors'],
  ['a field beside spec', {}, 'warning FIELD_UNKNOWN specs', { specs: {} }],
  ['there are no ports', { ports: undefined }, 'warning FIELD_MISSING spec.ports'],
  ['there is no spec', {}, 'warning FIELD_MISSING spec.ports', { spec: null }],
  ['protocol HTTP', port({ protocol: 'HTTP' }), 'error FIELD_VALUE spec.ports.0.protocol'],
  ['protocol in small letters', port({ protocol: 'tcp' }), 'error FIELD_VALUE spec.ports.0.protocol'],
  ['protocol is a number', port({ protocol: 6 }), 'error FIELD_TYPE spec.ports.0.protocol'],
  ['port as text', port({ port: '80' }), 'error FIELD_TYPE spec.ports.0.port'],
  ['port is missing', { ports: [{ name: 'http' }] }, 'error FIELD_MISSING spec.ports.0.port'],
  ['port 0', port({ port: 0 }), 'error PORT_INVALID spec.ports.0.port'],
  ['port 65536', port({ port: 65_536 }), 'error PORT_INVALID spec.ports.0.port'],
  ['negative port', port({ port: -80 }), 'error PORT_INVALID spec.ports.0.port'],
  ['half a port', port({ port: 80.5 }), 'error PORT_INVALID spec.ports.0.port'],
  ['targetPort 70000', port({ targetPort: 70_000 }), 'error PORT_INVALID spec.ports.0.targetPort'],
  ['targetPort is digits as text', port({ targetPort: '8080' }), 'error NAME_INVALID spec.ports.0.targetPort'],
  ['targetPort is true', port({ targetPort: true }), 'error FIELD_TYPE spec.ports.0.targetPort'],
  ['nodePort as text', { ...nodePort, ...port({ nodePort: '30080' }) }, 'error FIELD_TYPE spec.ports.0.nodePort'],
  ['nodePort 99999', { ...nodePort, ...port({ nodePort: 99_999 }) }, 'error PORT_INVALID spec.ports.0.nodePort'],
  ['nodePort on type ClusterIP', port({ nodePort: 30_080 }), 'error FIELD_VALUE spec.ports.0.nodePort'],
  ['port name with capitals', port({ name: 'Http' }), 'error NAME_INVALID spec.ports.0.name'],
  ['port name breaks out of a comment', port({ name: 'x" -j ACCEPT' }), 'error NAME_INVALID spec.ports.0.name'],
  ['port name of 64 characters', port({ name: 'x'.repeat(64) }), 'error NAME_INVALID spec.ports.0.name'],
  ['port name with a line end', port({ name: 'a\nCOMMIT' }), 'error CONTROL_CHARACTER spec.ports.0.name'],
  ['port name with a bidi mark', port({ name: 'a\u202eb' }), 'error CONTROL_CHARACTER spec.ports.0.name'],
  ['port name with a zero-width space', port({ name: 'a\u200bb' }), 'error CONTROL_CHARACTER spec.ports.0.name'],
  ['one of two ports has no name', twoPorts({}, { name: '' }), 'error FIELD_MISSING spec.ports.1.name'],
  ['two ports of one name', twoPorts({}, { name: 'a' }), 'error FIELD_VALUE spec.ports.1.name'],
  [
    '20,001 ports',
    { ports: Array.from({ length: 20_001 }, (_, n) => ({ name: `p${n}`, port: n + 1 })) },
    'error INPUT_TOO_LARGE spec.ports',
  ],
  ['one port twice', twoPorts({}, { port: 80 }), 'error FIELD_VALUE spec.ports.1.port'],
  [
    'one node port twice',
    { ...nodePort, ...twoPorts({ nodePort: 30_001 }, { nodePort: 30_001 }) },
    'error NODE_PORT_CONFLICT spec.ports.1.nodePort',
  ],
  ['unknown type', { type: 'Clusterip' }, 'error FIELD_VALUE spec.type'],
  ['clusterIP is not an address', { clusterIP: '10.96.0.256' }, 'error ADDRESS_INVALID spec.clusterIP'],
  ['clusterIP with leading zeros', { clusterIP: '010.96.0.1' }, 'error ADDRESS_INVALID spec.clusterIP'],
  ['clusterIP is IPv4 in IPv6', { clusterIP: '::ffff:10.96.0.1' }, 'error ADDRESS_INVALID spec.clusterIP'],
  ['clusterIP with a zone', { clusterIP: 'fd00::1%eth0' }, 'error ADDRESS_INVALID spec.clusterIP'],
  ['clusterIP with a prefix', { clusterIP: '10.96.0.1/32' }, 'error ADDRESS_INVALID spec.clusterIP'],
  ['clusterIP in another spelling', { clusterIP: 'FD00::0001' }, 'warning ADDRESS_INVALID spec.clusterIP'],
  ['clusterIP is loopback', { clusterIP: '127.0.0.1' }, 'error ADDRESS_FORBIDDEN spec.clusterIP'],
  ['clusterIP and clusterIPs differ', { clusterIPs: ['10.96.0.2'] }, 'error FIELD_VALUE spec.clusterIP'],
  [
    'two ClusterIPs of one family',
    { clusterIPs: ['10.96.0.1', '10.96.0.2'] },
    'error ADDRESS_WRONG_FAMILY spec.clusterIPs.1',
  ],
  ['clusterIP against ipFamilies', { ipFamilies: ['IPv6'] }, 'error ADDRESS_WRONG_FAMILY spec.clusterIP'],
  ['unknown family', { ipFamilies: ['IPv4', 'IPv5'] }, 'error FIELD_VALUE spec.ipFamilies.1'],
  ['one family twice', { ipFamilies: ['IPv4', 'IPv4'] }, 'error FIELD_VALUE spec.ipFamilies.1'],
  ['ipFamilies is a text', { ipFamilies: 'IPv4' }, 'error FIELD_TYPE spec.ipFamilies'],
  ['unknown ipFamilyPolicy', { ipFamilyPolicy: 'DualStack' }, 'error FIELD_VALUE spec.ipFamilyPolicy'],
  [
    'SingleStack of two families',
    { ipFamilyPolicy: 'SingleStack', ipFamilies: ['IPv4', 'IPv6'] },
    'error FIELD_VALUE spec.ipFamilyPolicy',
  ],
  ['headless NodePort', { ...nodePort, clusterIP: 'None' }, 'error FIELD_VALUE spec.clusterIP'],
  ['ExternalName with a ClusterIP', { type: 'ExternalName' }, 'error FIELD_VALUE spec.clusterIP'],
  ['externalIP is a name', { externalIPs: ['example.com'] }, 'error ADDRESS_INVALID spec.externalIPs.0'],
  ['externalIP is link-local', { externalIPs: ['169.254.169.254'] }, 'error ADDRESS_FORBIDDEN spec.externalIPs.0'],
  ['externalIP is multicast', { externalIPs: ['192.0.2.1', 'ff02::1'] }, 'error ADDRESS_FORBIDDEN spec.externalIPs.1'],
  ['externalIP is a number', { externalIPs: [1] }, 'error FIELD_TYPE spec.externalIPs.0'],
  [
    'a source range is an address',
    { ...balancer, loadBalancerSourceRanges: ['192.0.2.1'] },
    'error ADDRESS_INVALID spec.loadBalancerSourceRanges.0',
  ],
  [
    'a source range has bits behind its prefix',
    { ...balancer, loadBalancerSourceRanges: ['192.0.2.1/24'] },
    'warning ADDRESS_INVALID spec.loadBalancerSourceRanges.0',
  ],
  [
    'source ranges without a load balancer',
    { loadBalancerSourceRanges: ['192.0.2.0/24'] },
    'warning OBJECT_IGNORED spec.loadBalancerSourceRanges',
  ],
  ['unknown sessionAffinity', { sessionAffinity: 'Cookie' }, 'error FIELD_VALUE spec.sessionAffinity'],
  [
    'affinity of 0 seconds',
    { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 0 } } },
    'error FIELD_VALUE spec.sessionAffinityConfig.clientIP.timeoutSeconds',
  ],
  [
    'affinity of more than a day',
    { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 86_401 } } },
    'error FIELD_VALUE spec.sessionAffinityConfig.clientIP.timeoutSeconds',
  ],
  [
    'affinity settings without affinity',
    { sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } } },
    'error FIELD_VALUE spec.sessionAffinityConfig',
  ],
  ['unknown internalTrafficPolicy', { internalTrafficPolicy: 'local' }, 'error FIELD_VALUE spec.internalTrafficPolicy'],
  [
    'unknown externalTrafficPolicy',
    { ...nodePort, externalTrafficPolicy: 'OnlyLocal' },
    'error FIELD_VALUE spec.externalTrafficPolicy',
  ],
  [
    'externalTrafficPolicy without an outside',
    { externalTrafficPolicy: 'Local' },
    'warning OBJECT_IGNORED spec.externalTrafficPolicy',
  ],
  [
    'healthCheckNodePort without Local',
    { ...balancer, healthCheckNodePort: 32_000 },
    'error FIELD_VALUE spec.healthCheckNodePort',
  ],
  [
    'healthCheckNodePort as text',
    { ...balancer, healthCheckNodePort: '1' },
    'error FIELD_TYPE spec.healthCheckNodePort',
  ],
  [
    'allocateLoadBalancerNodePorts is a text',
    { allocateLoadBalancerNodePorts: 'no' },
    'error FIELD_TYPE spec.allocateLoadBalancerNodePorts',
  ],
  ['selector is a list', { selector: ['app'] }, 'error FIELD_TYPE spec.selector'],
  ['a selector label is a number', { selector: { app: 1 } }, 'error FIELD_TYPE spec.selector.app'],
  ['labels are a list', {}, 'error FIELD_TYPE metadata.labels', { labels: ['a'] }],
  ['ingress is a name', balancer, 'error ADDRESS_INVALID status.loadBalancer.ingress.0.ip', ingress({ ip: 'lb' })],
  [
    'unknown ipMode',
    balancer,
    'error FIELD_VALUE status.loadBalancer.ingress.0.ipMode',
    ingress({ ip: '192.0.2.9', ipMode: 'NAT' }),
  ],
  [
    'ipMode Proxy',
    balancer,
    'note OBJECT_IGNORED status.loadBalancer.ingress.0.ipMode',
    ingress({ ip: '192.0.2.9', ipMode: 'Proxy' }),
  ],
  [
    'ingress has a host name only',
    balancer,
    'note OBJECT_IGNORED status.loadBalancer.ingress.0.hostname',
    ingress({ hostname: 'lb.example.com' }),
  ],
  ['ingress on type ClusterIP', {}, 'warning OBJECT_IGNORED status.loadBalancer.ingress', ingress({ ip: '192.0.2.9' })],
];

const cases = rows.map(([title, spec, expected, more]) => [title, spec, expected, more ?? {}] as const);

test.each(cases)('a Service: %s', (_title, spec, expected, more) => {
  const problems: Problem[] = [];
  const object = service('web', spec, more);
  const read = readObjects([object], problems);
  const [level, code, path] = expected.split(' ');
  expect(lines(problems)).toEqual([`${level} ${code} Service web#${path}`]);
  expect(read.services.length).toBe(level === 'error' ? 0 : 1);
  expect(problems[0]).toMatchObject({
    object: 'Service shop/web',
    message: expect.stringMatching(/^(?:Cannot |clusterIP )/),
  });
});

test('every problem of a Service is reported at once', () => {
  const problems: Problem[] = [];
  readObjects([service('web', { type: 'X', clusterIP: 'y', ports: [{ port: 'z' }] })], problems);
  expect(lines(problems)).toEqual([
    'error FIELD_VALUE Service web#spec.type',
    'error ADDRESS_INVALID Service web#spec.clusterIP',
    'error FIELD_TYPE Service web#spec.ports.0.port',
  ]);
});
