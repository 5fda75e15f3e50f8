import type { BundleFiles } from '@sluice/bundle';
import { bundleOf } from './bundle.fixture.ts';
import { type Case, both, web, spec, port, balanced, open, many, from, profile, external } from './cases.fixture.ts';

/** Rules about a change from one bundle to another. */
export const casesOfChanges: readonly Case[] = [
  ['LAST_ENDPOINT', 'all endpoints go', () => from(web, { ...web, endpoints: [] }), true],
  [
    'LAST_ENDPOINT',
    'a port gets a name that no EndpointSlice has',
    () => from({ ...web, type: 'NodePort', spec: [port('http')] }, { ...web, type: 'NodePort', spec: [port('web')] }),
    true,
  ],
  ['LAST_ENDPOINT', 'one of two endpoints goes', () => from(web, { ...web, endpoints: both.slice(0, 1) }), false],
  ['LAST_ENDPOINT', 'there was none', () => from({ ...web, endpoints: [] }, { ...web, endpoints: [] }), false],
  ['SERVICE_REMOVED', 'a Service goes', () => ({ base: bundleOf([web, ...many(1)]), files: bundleOf([web]) }), true],
  [
    'SERVICE_REMOVED',
    'a port goes, and another number comes',
    () => from(spec('ports: [{ name: http, port: 80 }]'), spec('ports: [{ name: http, port: 81 }]')),
    true,
  ],
  [
    'SERVICE_REMOVED',
    'a Service without endpoints goes',
    () => ({ base: bundleOf([web, { ...many(1)[0]!, endpoints: [] }]), files: bundleOf([web]) }),
    false,
  ],
  [
    'ENDPOINTS_CHANGED',
    'every endpoint is another one',
    () => from(web, { ...web, endpoints: ['10.244.1.8 node-a z1', '10.244.2.8 node-b z2'] }),
    true,
  ],
  [
    'ENDPOINTS_CHANGED',
    'half of them are others',
    () => from(web, { ...web, endpoints: ['10.244.1.8 node-a z1', '10.244.2.5 node-b z2'] }),
    false,
  ],
  [
    'NODES_CHANGED',
    'an endpoint that all nodes use comes',
    () => from(web, { ...web, endpoints: [...both, '10.244.1.6 node-a z1'] }, { nodesChangedPercent: 50 }),
    true,
  ],
  [
    'NODES_CHANGED',
    'an endpoint that one of two nodes uses comes',
    () =>
      from(
        spec('internalTrafficPolicy: Local'),
        { ...spec('internalTrafficPolicy: Local'), endpoints: [...both, '10.244.1.6 node-a z1'] },
        { nodesChangedPercent: 50 },
      ),
    false,
  ],
  [
    'NODES_CHANGED',
    'the same in mode ipvs',
    () => {
      const local = (endpoints: readonly string[]): BundleFiles =>
        bundleOf([{ ...spec('internalTrafficPolicy: Local'), endpoints }], '    mode: ipvs\n');
      return {
        base: local(both),
        files: local([...both, '10.244.1.6 node-a z1']),
        settings: { nodesChangedPercent: 50 },
      };
    },
    false,
  ],
  ['NODE_PORT_OPENED', 'a Service gets one', () => from(web, { ...web, type: 'NodePort' }), true],
  [
    'NODE_PORT_OPENED',
    'a new Service has one',
    () => ({ base: bundleOf([web]), files: bundleOf([web, { ...many(1)[0]!, type: 'NodePort' }]) }),
    true,
  ],
  [
    'NODE_PORT_OPENED',
    'a profile opens them on every address',
    () => profile('    nodePortAddresses: [192.0.2.0/24]\n', '', { ...web, type: 'NodePort' }),
    true,
  ],
  [
    'NODE_PORT_OPENED',
    'a profile opens them on fewer addresses',
    () => profile('', '    nodePortAddresses: [192.0.2.0/24]\n', { ...web, type: 'NodePort' }),
    false,
  ],
  ['NODE_PORT_OPENED', 'a Service loses its own', () => from({ ...web, type: 'NodePort' }, web), false],
  [
    'NODE_PORT_OPENED',
    'the port behind it is called otherwise',
    () =>
      from(
        { ...web, type: 'NodePort', endpoints: [], spec: [port('http')] },
        { ...web, type: 'NodePort', endpoints: [], spec: [port('web')] },
      ),
    false,
  ],
  ['AFFINITY_CHANGED', 'affinity comes', () => from(web, spec('sessionAffinity: ClientIP')), true],
  [
    'AFFINITY_CHANGED',
    'it stays',
    () => from(spec('sessionAffinity: ClientIP'), spec('sessionAffinity: ClientIP')),
    false,
  ],
  ['TRAFFIC_POLICY_CHANGED', 'inside', () => from(web, spec('internalTrafficPolicy: Local')), true],
  [
    'TRAFFIC_POLICY_CHANGED',
    'from outside',
    () => from(external, spec('externalIPs: [203.0.113.50]', 'externalTrafficPolicy: Local')),
    true,
  ],
  [
    'TRAFFIC_POLICY_CHANGED',
    'what was the default is written',
    () => from(web, spec('internalTrafficPolicy: Cluster')),
    false,
  ],
  [
    'RANGES_WIDENED',
    'a range becomes wider',
    () => from(balanced(open), balanced(['198.51.0.0/16', '2001:db8:9::/48'])),
    true,
  ],
  ['RANGES_WIDENED', 'those of one family go', () => from(balanced(open), balanced(open.slice(0, 1))), true],
  [
    'RANGES_WIDENED',
    'they go while the port is called otherwise',
    () => from(balanced(open), balanced([], { spec: [port('web')] })),
    true,
  ],
  [
    'RANGES_WIDENED',
    'ranges are removed without an endpoint',
    () => from(balanced(open, { endpoints: [] }), balanced([])),
    true,
  ],
  ['RANGES_WIDENED', 'endpoints go, ranges stay', () => from(balanced(open), balanced(open, { endpoints: [] })), false],
  [
    'RANGES_WIDENED',
    'a range becomes narrower',
    () => from(balanced(open), balanced(['198.51.100.0/25', '2001:db8:9::/48'])),
    false,
  ],
  ['MODE_CHANGED', 'iptables becomes ipvs', () => profile('', '    mode: ipvs\n'), true],
  ['MODE_CHANGED', 'it stays', () => profile('    mode: ipvs\n', '    mode: ipvs\n'), false],
  ['SYSCTL_CHANGED', 'more connections are tracked', () => profile('', '    conntrack: { min: 262144 }\n'), true],
  ['RULE_GROWTH', 'ten Services come', () => ({ base: bundleOf([web]), files: bundleOf([web, ...many(10)]) }), true],
  ['RULE_GROWTH', 'a fifth more', () => ({ base: bundleOf(many(10)), files: bundleOf(many(12)) }), false],
  ['SYSCTL_CHANGED', 'localhost is closed', () => profile('', '    iptables: { localhostNodePorts: false }\n'), true],
  ['SYSCTL_CHANGED', 'nothing changes', () => profile('', ''), false],
];
