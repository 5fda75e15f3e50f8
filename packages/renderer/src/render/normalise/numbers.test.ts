import { expect, test } from 'vitest';
import { type Changes, config, lines, modelOf, node, normalised, service } from '../builders.fixture.ts';
import type { KubeObject } from '../model/kube.ts';

const foreign = { labels: { 'service.kubernetes.io/service-proxy-name': 'x' } };
const bare: Changes = { clusterIP: undefined, selector: undefined };

test('does not allocate an address that another object has', () => {
  const change = [
    service('proxied', { clusterIP: '10.96.0.2' }, foreign),
    service('outside', { clusterIP: '10.96.0.3', externalIPs: ['10.96.0.4'] }),
    service('new', bare),
    node('n', { status: { addresses: [{ type: 'InternalIP', address: '10.96.0.5' }] } }),
  ];
  // A /29 has five addresses to give out, .2 to .6.
  const small = config({ serviceCIDRs: { ipv4: ['10.96.0.0/29'] } });
  const { created } = normalised(change, { allocate: true, config: small });
  expect(created).toMatchObject([{ name: 'new', clusterIPs: ['10.96.0.6'] }]);
});

test('does not allocate a node port of a Service of another proxy', () => {
  const nodePort = (port: number): Changes => ({ type: 'NodePort', ports: [{ port: 80, nodePort: port }] });
  const change = [
    service('a', { clusterIP: '10.96.0.2', ...nodePort(30_000) }, foreign),
    service('b', { ...bare, ...nodePort(0) }),
  ];
  const small = config({ nodePortRange: { from: 30_000, to: 30_001 } });
  const { created } = normalised(change, { allocate: true, config: small });
  expect(created).toMatchObject([{ name: 'b', nodePorts: { '/TCP': 30_001 } }]);
});

test('an address in an allocation file needs no service CIDR', () => {
  const allocations = [{ namespace: 'shop', name: 'web', file: 'web.yaml', clusterIPs: ['fd00:96::7'], nodePorts: {} }];
  const change = [service('web', { ...bare, ipFamilies: ['IPv6'] })];
  const four = config({ serviceCIDRs: { ipv4: ['10.96.0.0/16'] } });
  const { model, problems, created } = normalised(change, { allocate: true, allocations, config: four });
  expect(model.services[0]?.ports[0]?.families.ipv6?.clusterIP).toBe('fd00:96::7');
  expect([problems, created]).toEqual([[], []]);
});

test('ignores allocation files when allocation is off', () => {
  const allocations = [{ namespace: 'shop', name: 'web', file: 'web.yaml', clusterIPs: ['10.96.0.7'], nodePorts: {} }];
  expect(modelOf([service('web', bare)], { allocations }).services).toEqual([]);
});

const balancer: Changes = {
  type: 'LoadBalancer',
  selector: undefined,
  ports: [{ name: 'http', port: 80, nodePort: 30_080 }],
};

/** A change over an empty base: the numbers that the API server must allocate. */
test.each<[string, Changes, RegExp]>([
  ['a ClusterIP', { ...bare }, / yet: the API server must first allocate a ClusterIP$/],
  [
    'the second family',
    { selector: undefined, ipFamilyPolicy: 'RequireDualStack' },
    /all rules yet.* a ClusterIP of the other family$/,
  ],
  ['node ports', { ...balancer, ports: [{ port: 80 }] }, /all rules yet.* node ports \(80\)$/],
  [
    'a health-check node port',
    { ...balancer, externalTrafficPolicy: 'Local' },
    /all rules yet.* a health-check node port$/,
  ],
])('reports a Service that needs %s', (_title, spec, words) => {
  const { problems } = normalised([service('web', spec)], { base: [node('n')] });
  expect(lines(problems)).toEqual(['note SERVICE_WAITS Service web#spec']);
  expect(problems[0]?.message).toMatch(words);
});

test.each<[string, Changes]>([
  ['node ports are not wanted', { ...balancer, allocateLoadBalancerNodePorts: false, ports: [{ port: 80 }] }],
  ['a second family is only preferred', { selector: undefined, ipFamilyPolicy: 'PreferDualStack' }],
])('nothing is missing where %s', (_title, spec) => {
  const change: readonly KubeObject[] = [service('web', spec)];
  expect(normalised(change, { base: [node('n')] }).problems).toEqual([]);
});
