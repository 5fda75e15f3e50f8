import { expect, test } from 'vitest';
import { bundleOf, type Short } from './bundle.fixture.ts';
import { checkPolicy } from './policy.ts';

test.each([
  ['off by default', {}, []],
  [
    'the last endpoint',
    { levels: { SURVIVES_NODE: 'error', SURVIVES_ZONE: 'warning' } },
    [
      'SURVIVES_NODE shop/web: Cannot survive the loss of node node-a: shop/web:http 80/TCP has no endpoint then (ipv4)',
      'SURVIVES_ZONE shop/web: Cannot survive the loss of zone z1: shop/web:http 80/TCP has no endpoint then (ipv4)',
    ],
  ],
  [
    'a share above the limit',
    { levels: { SURVIVES_NODE: 'error' }, survives: { sharePercent: 80 } },
    [
      'SURVIVES_NODE shop/pair: Cannot survive the loss of one of nodes node-a, node-b: 10.244.2.6:8080 gets 100 % of the connections to shop/pair:http 80/TCP then (ipv4)',
      'SURVIVES_NODE shop/web: Cannot survive the loss of node node-a: shop/web:http 80/TCP has no endpoint then (ipv4)',
    ],
  ],
  [
    'a Service without endpoints, as in a release for nodes with live endpoints',
    { levels: { SURVIVES_NODE: 'error' }, survives: { services: ['shop/idle'] } },
    [
      'SURVIVES_NODE shop/idle: Cannot tell whether shop/idle:http 80/TCP survives the loss of a node: the bundle has no endpoint of it (ipv4)',
    ],
  ],
  ['other Services', { levels: { SURVIVES_NODE: 'error' }, survives: { services: ['shop/pair', 'ops/*'] } }, []],
  [
    'a namespace',
    { levels: { SURVIVES_ZONE: 'error' }, survives: { services: ['shop/*'] } },
    [
      'SURVIVES_ZONE shop/idle: Cannot tell whether shop/idle:http 80/TCP survives the loss of a zone: the bundle has no endpoint of it (ipv4)',
      'SURVIVES_ZONE shop/web: Cannot survive the loss of zone z1: shop/web:http 80/TCP has no endpoint then (ipv4)',
    ],
  ],
] as const)('SURVIVES_NODE and SURVIVES_ZONE: %s', (_title, settings, expected) => {
  const alone: Short = {
    name: 'web',
    clusterIPs: ['10.96.0.30'],
    endpoints: ['10.244.1.5 node-a z1', '10.244.1.6 node-a z1'],
  };
  const pair: Short = {
    name: 'pair',
    clusterIPs: ['10.96.0.31'],
    endpoints: ['10.244.1.6 node-a z1', '10.244.2.6 node-b z2'],
  };
  const idle: Short = { name: 'idle', clusterIPs: ['10.96.0.32'], endpoints: [] };
  const result = checkPolicy({ files: bundleOf([alone, pair, idle]), settings, today: '2026-11-21' });
  const found = result.findings.filter(({ code }) => code.startsWith('SURVIVES'));
  expect(found.map(({ code, subject, message }) => `${code} ${subject}: ${message}`)).toEqual(expected);
});
