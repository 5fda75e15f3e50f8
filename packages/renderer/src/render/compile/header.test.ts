import { expect, test } from 'vitest';
import type { ServicePort } from '../model/model.ts';
import { headerOf } from './header.ts';
import { down, endpoint, leaving, portWith, serviceOf } from './sample.fixture.ts';

const where = { nodeName: 'node-a', zone: 'zone-a' };

test.each<[string, readonly ServicePort[], readonly string[]]>([
  [
    'an address, a port, an endpoint',
    [portWith({ endpoints: [endpoint('10.244.1.5:8080', where)] })],
    ['shop/cart ClusterIP', '10.96.7.1: http 80/TCP', 'endpoint http 10.244.1.5:8080 node-a zone-a'],
  ],
  [
    'a port without a name',
    [portWith({ endpoints: [endpoint('10.244.1.5:80')] }, { key: 'shop/cart', name: '', protocol: 'SCTP' })],
    ['shop/cart ClusterIP', '10.96.7.1: 80/SCTP', 'endpoint 10.244.1.5:80'],
  ],
  [
    'how each endpoint is',
    [
      portWith({
        endpoints: [
          endpoint('10.244.1.5:80', { ...where, ...down }),
          endpoint('10.244.1.6:80', { ...where, ...leaving }),
          endpoint('10.244.1.7:80', { ...where, ...leaving, serving: false }),
          endpoint('10.244.1.8:80', { nodeName: 'node-b' }),
          endpoint('10.244.1.9:80', { zone: 'zone-a' }),
          endpoint('10.244.1.10:80', { ...where, hintZones: ['zone-a', 'zone-b'] }),
          endpoint('10.244.1.11:80', { ...where, ...leaving, serving: false, hintNodes: ['node-a'] }),
        ],
      }),
    ],
    [
      'shop/cart ClusterIP',
      '10.96.7.1: http 80/TCP',
      'endpoint http 10.244.1.5:80 node-a zone-a not ready',
      'endpoint http 10.244.1.6:80 node-a zone-a not ready terminating',
      'endpoint http 10.244.1.7:80 node-a zone-a not ready terminating, not serving',
      'endpoint http 10.244.1.8:80 node-b',
      'endpoint http 10.244.1.9:80 - zone-a',
      'endpoint http 10.244.1.10:80 node-a zone-a, for zones zone-a,zone-b',
      'endpoint http 10.244.1.11:80 node-a zone-a not ready terminating, not serving, for nodes node-a',
    ],
  ],
  [
    'what ports share is said once',
    [
      portWith(
        {
          externalIPs: ['192.0.2.50'],
          loadBalancerIPs: ['203.0.113.9'],
          loadBalancerSourceRanges: ['198.51.100.0/24'],
        },
        { nodePort: 30_080, healthCheckNodePort: 32_000, externalTrafficPolicy: 'Local', affinitySeconds: 600 },
      ),
      portWith(
        {
          externalIPs: ['192.0.2.50'],
          loadBalancerIPs: ['203.0.113.9'],
          loadBalancerSourceRanges: ['198.51.100.0/24'],
        },
        {
          key: 'shop/cart:admin',
          name: 'admin',
          port: 81,
          healthCheckNodePort: 32_000,
          externalTrafficPolicy: 'Local',
          internalTrafficPolicy: 'Local',
          affinitySeconds: 600,
        },
      ),
    ],
    [
      'shop/cart ClusterIP',
      '10.96.7.1: http 80/TCP node port 30080',
      '10.96.7.1: admin 81/TCP',
      'external address 192.0.2.50',
      'load-balancer address 203.0.113.9',
      'load-balancer source range 198.51.100.0/24',
      'externalTrafficPolicy Local',
      'health-check node port 32000',
      'session affinity ClientIP 600 s',
      'internalTrafficPolicy Local',
    ],
  ],
])('comment block: %s', (_title, ports, expected) => {
  expect(headerOf(serviceOf(ports), 'ipv4')).toEqual(expected);
});

test('lists a weight other than 1', () => {
  const ports = [portWith({ endpoints: [endpoint('10.244.1.5:80', where), endpoint('10.244.1.6:80')] })];
  const header = headerOf(serviceOf(ports), 'ipv4', ({ address }) => (address === '10.244.1.5' ? 3 : 1));
  expect(header.slice(2)).toEqual([
    'endpoint http 10.244.1.5:80 node-a zone-a, weight 3',
    'endpoint http 10.244.1.6:80',
  ]);
});
