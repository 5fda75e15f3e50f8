import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Family } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { Memory } from '../bundle/memory.ts';
import type { ServiceFacts } from './facts.ts';
import { factsAt } from './read.ts';

const examples = join(import.meta.dirname, '../../../../examples');

const pathOf = (service: string, family: Family): string =>
  `profiles/default/services/${service}.${family === 'ipv4' ? 'iptables' : 'ip6tables'}`;

function factsIn(
  example: string,
  service: string,
  edit = (text: string) => text,
  family: Family = 'ipv4',
): ServiceFacts {
  const path = pathOf(service, family);
  const text = edit(readFileSync(join(examples, example, 'out', path), 'utf8'));
  return factsAt({ files: new Map([[path, text]]), memory: new Memory() }, path)[0] as ServiceFacts;
}

test('reads all facts of a load balancer with source ranges and policy Local', () => {
  expect(factsIn('03-load-balancer', 'shop/web')).toEqual({
    service: 'shop/web',
    family: 'ipv4',
    type: 'LoadBalancer',
    ports: [
      {
        key: 'shop/web:http 80/TCP',
        protocol: 'tcp',
        addresses: [
          { kind: 'cluster', text: '10.96.0.30:80' },
          { kind: 'external', text: '203.0.113.50:80' },
          { kind: 'load-balancer', text: '203.0.113.9:80' },
        ],
        nodePort: 30090,
        healthCheckPort: 32000,
        endpoints: [{ text: '10.244.1.5:8080', node: 'node-1' }],
        internalPolicy: 'Cluster',
        externalPolicy: 'Local',
        sourceRanges: ['198.51.100.0/25'],
      },
    ],
  } satisfies ServiceFacts);
});

test.each([
  ['affinity is what the rules wait', '04-affinity-and-udp', 'shop/login', { affinity: [600] }],
  ['policy Local shows in the chain', '07-policies', 'ops/node-log', { internalPolicy: 'Local' }],
  [
    'a Service without endpoints has its addresses and node port',
    '07-policies',
    'shop/empty',
    { nodePort: 30073, endpoints: [] },
  ],
  [
    'an endpoint that no node uses is none',
    '07-policies',
    'shop/rolling',
    { endpoints: [{ text: '10.244.2.6:8080', node: 'node-2' }] },
  ],
  [
    'endpoints have their zone',
    '06-zones',
    'shop/cache',
    {
      endpoints: [
        { text: '10.244.1.6:6379', node: 'node-1', zone: 'a' },
        { text: '10.244.2.6:6379', node: 'node-2', zone: 'b' },
      ],
    },
  ],
])('%s', (_title, example, service, facts) => {
  expect(factsIn(example, service).ports[0]).toMatchObject(facts);
});

test('ignores an address that only the comment block has', () => {
  const boasting = (text: string): string => text.replace('\n', '\n# external address 203.0.113.1\n');
  expect(factsIn('01-cluster-ip', 'shop/web', boasting)).toEqual(factsIn('01-cluster-ip', 'shop/web'));
});
