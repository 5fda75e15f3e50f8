import { readTarget } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { endpoint, node, normalised, service, slice } from '../builders.fixture.ts';
import type { KubeObject } from '../model/kube.ts';
import { snapshotCauses } from './snapshot-causes.ts';

const nodes = [
  node('node-a'),
  node('node-b', { status: { addresses: [{ type: 'InternalIP', address: '192.0.2.12' }] } }),
];
const on = (nodeName: string, ready = true) => endpoint('10.244.1.5', { nodeName, conditions: { ready } });

const ending = (conditions: Readonly<Record<string, boolean>>) =>
  endpoint('10.244.1.6', { nodeName: 'node-a', conditions });

const sick = (status: string) =>
  node('node-c', {
    status: { addresses: [{ type: 'InternalIP', address: '192.0.2.13' }], conditions: [{ type: 'Ready', status }] },
  });

/** The first cause of `shop/web`, or of another target, for packets at node-a. */
function causeOf(objects: readonly KubeObject[], target = 'shop/web'): string {
  const all = [...nodes, ...objects];
  const { model, problems } = normalised(all);
  const found = snapshotCauses(readTarget(target) ?? { kind: 'all' }, { model, problems, objects: all }, 'node-a');
  return found.map(({ code, certainty }) => `${certainty} ${code}`).join(', ');
}

test.each<[string, readonly KubeObject[], string]>([
  ['a Service that works', [service('web'), slice('web', { endpoints: [on('node-b')] })], ''],
  [
    'a Service without a slice',
    [service('web'), service('db', { clusterIP: '10.96.0.2' }), slice('db')],
    'certain SELECTOR_MATCHES_NOTHING',
  ],
  ['an empty slice', [service('web'), slice('web', { endpoints: [] })], 'certain NO_ENDPOINTS'],
  [
    'endpoints that are not ready',
    [service('web'), slice('web', { endpoints: [on('node-a', false)] })],
    'certain ENDPOINTS_NOT_READY',
  ],
  [
    'endpoints with a port of another name',
    [service('web'), slice('web', { ports: [{ name: 'metrics', port: 9090 }], endpoints: [on('node-a')] })],
    'certain TARGET_PORT_UNKNOWN',
  ],
  [
    'endpoints on a node that is not ready',
    [sick('Unknown'), service('web'), slice('web', { endpoints: [on('node-c')] })],
    'likely ENDPOINT_NODE_NOT_READY',
  ],
  [
    'endpoints of which none is ready, on a node that is not',
    [sick('False'), service('web'), slice('web', { endpoints: [on('node-c', false)] })],
    'certain ENDPOINTS_NOT_READY',
  ],
  [
    'endpoints on a node that is ready',
    [sick('True'), service('web'), slice('web', { endpoints: [on('node-c')] })],
    '',
  ],
  [
    'internal policy Local and an endpoint elsewhere',
    [service('web', { internalTrafficPolicy: 'Local' }), slice('web', { endpoints: [on('node-b')] })],
    'certain NO_LOCAL_ENDPOINT',
  ],
  [
    'internal policy Local and an endpoint here',
    [service('web', { internalTrafficPolicy: 'Local' }), slice('web', { endpoints: [on('node-a')] })],
    '',
  ],
  [
    'policy Local, and here an endpoint that ends and serves, while another is ready elsewhere',
    [
      service('web', { internalTrafficPolicy: 'Local' }),
      slice('web', { endpoints: [ending({ ready: false, serving: true, terminating: true }), on('node-b')] }),
    ],
    '',
  ],
  [
    'policy Local, and here an endpoint that ends and no longer serves',
    [
      service('web', { internalTrafficPolicy: 'Local' }),
      slice('web', { endpoints: [ending({ ready: false, serving: false, terminating: true }), on('node-b')] }),
    ],
    'certain NO_LOCAL_ENDPOINT',
  ],
  ['a headless Service', [service('web', { clusterIP: 'None' })], 'certain SERVICE_LEFT_TO_OTHERS'],
  [
    'a Service of type ExternalName',
    [service('web', { type: 'ExternalName', externalName: 'a.example', clusterIP: '' })],
    'certain SERVICE_LEFT_TO_OTHERS',
  ],
  [
    'an external address that two Services claim',
    [
      service('web', { externalIPs: ['198.51.100.7'] }),
      slice('web', { endpoints: [on('node-a')] }),
      service('db', { clusterIP: '10.96.0.2', externalIPs: ['198.51.100.7'] }),
      slice('db', { endpoints: [on('node-a')] }),
    ],
    'certain ADDRESS_SHARED',
  ],
])('%s', (_title, objects, expected) => {
  expect(causeOf(objects)).toBe(expected);
});

test.each([
  ['its address', '198.51.100.7', 'certain SERVICE_LEFT_TO_OTHERS'],
  ['a port of its address', '198.51.100.7:80', 'certain SERVICE_LEFT_TO_OTHERS'],
  ['its name', 'shop/web', 'note SERVICE_LEFT_TO_OTHERS'],
  ['a port that it does not have', 'shop/web:https', 'certain SERVICE_UNKNOWN'],
  ['a port that its cluster IP does not have', '10.96.0.1:81', 'certain SERVICE_UNKNOWN'],
])('a load balancer with ipMode Proxy, asked by %s', (_title, target, expected) => {
  const ingress = [{ ip: '198.51.100.7', ipMode: 'Proxy' }];
  const balanced = service('web', { type: 'LoadBalancer' }, { status: { loadBalancer: { ingress } } });
  expect(causeOf([balanced, slice('web', { endpoints: [on('node-a')] })], target)).toBe(expected);
});

test('a Service with the name of another proxy is left to it', () => {
  const labels = { 'service.kubernetes.io/service-proxy-name': 'other' };
  const objects = [service('web', {}, { labels }), slice('web', { endpoints: [on('node-a')] })];
  for (const target of ['shop/web', '10.96.0.1:80'])
    expect(causeOf(objects, target)).toBe('certain SERVICE_LEFT_TO_OTHERS');
});

test('a port that a Service does not have is unknown, also with the label of headless Services, which has no effect on it', () => {
  const labels = { 'service.kubernetes.io/headless': '' };
  const objects = [service('web', {}, { labels }), slice('web', { endpoints: [on('node-a')] })];
  expect(causeOf(objects)).toBe('');
  expect(causeOf(objects, 'shop/web:https')).toBe('certain SERVICE_UNKNOWN');
});

test('asks by address and port, and says when nothing has them', () => {
  const objects = [service('web'), slice('web', { endpoints: [] })];
  expect(causeOf(objects, '10.96.0.1:80')).toBe('certain NO_ENDPOINTS');
  expect(causeOf(objects, '10.96.0.1:81')).toBe('certain SERVICE_UNKNOWN');
  expect(causeOf(objects, 'shop/web:https')).toBe('certain SERVICE_UNKNOWN');
});

test('of all Services those without endpoints are notes', () => {
  const objects = [...nodes, service('web'), slice('web', { endpoints: [] })];
  const { model, problems } = normalised(objects);
  expect(
    snapshotCauses({ kind: 'all' }, { model, problems, objects }, undefined).map(({ certainty }) => certainty),
  ).toEqual(['note']);
});
