import { expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import type { Allocation } from '../render/allocate/allocation.ts';
import type { JsonObject, KubeObject } from '../render/kube.ts';
import { allocationsAsManifests } from './allocations-manifests.ts';

const origin = { place: () => ({ file: 'shop.yaml', line: 1, column: 1 }) };
const service = (spec: JsonObject, more: JsonObject = {}): KubeObject => ({
  kind: 'Service',
  apiVersion: 'v1',
  value: { apiVersion: 'v1', kind: 'Service', metadata: { name: 'web', namespace: 'shop' }, spec, ...more },
  origin,
});
const given: Allocation = {
  namespace: 'shop',
  name: 'web',
  clusterIPs: ['10.96.0.31', 'fd00:96::1f'],
  nodePorts: { 'http/TCP': 30001, '/UDP': 30002 },
  healthCheckNodePort: 30003,
};

/** What an API server would read, as YAML 1.1 reads it. */
const specs = (services: readonly KubeObject[], allocation = given): unknown[] =>
  parseAllDocuments(allocationsAsManifests(services, [allocation]), { version: '1.1' }).map(
    (document) => (document.toJS() as { spec: unknown }).spec,
  );

const http = { name: 'http', port: 80 };

test.each<[string, JsonObject, JsonObject]>([
  ['one family is the rule', {}, { clusterIP: '10.96.0.31', clusterIPs: ['10.96.0.31'] }],
  [
    'two families where they are asked for',
    { ipFamilyPolicy: 'PreferDualStack' },
    { clusterIP: '10.96.0.31', clusterIPs: ['10.96.0.31', 'fd00:96::1f'] },
  ],
  [
    'the family is the one asked for',
    { ipFamilies: ['IPv6'] },
    { clusterIP: 'fd00:96::1f', clusterIPs: ['fd00:96::1f'] },
  ],
  [
    'the order of ipFamilies counts',
    { ipFamilies: ['IPv6'], ipFamilyPolicy: 'RequireDualStack' },
    { clusterIP: 'fd00:96::1f', clusterIPs: ['fd00:96::1f', '10.96.0.31'] },
  ],
  [
    "the manifest's own address stays, the other family is added",
    { clusterIP: '10.96.0.7', ipFamilies: ['IPv4', 'IPv6'] },
    { clusterIP: '10.96.0.7', clusterIPs: ['10.96.0.7', 'fd00:96::1f'] },
  ],
  [
    "the manifest's own address alone stays alone",
    { clusterIP: '10.96.0.7' },
    { clusterIP: '10.96.0.7', clusterIPs: ['10.96.0.7'] },
  ],
  [
    'ports are found by name and protocol, TCP where none is said',
    { type: 'NodePort', ports: [http, { port: 53, protocol: 'UDP' }, { ...http, protocol: 'UDP' }] },
    {
      ports: [
        { ...http, nodePort: 30001 },
        { port: 53, protocol: 'UDP', nodePort: 30002 },
        { ...http, protocol: 'UDP' },
      ],
    },
  ],
  [
    "the manifest's own numbers stay",
    {
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Local',
      ports: [{ ...http, nodePort: 31000 }],
      healthCheckNodePort: 31001,
    },
    { ports: [{ ...http, nodePort: 31000 }], healthCheckNodePort: 31001 },
  ],
  [
    'a load balancer with local traffic gets a health-check port',
    { type: 'LoadBalancer', externalTrafficPolicy: 'Local', ports: [http] },
    { ports: [{ ...http, nodePort: 30001 }], healthCheckNodePort: 30003 },
  ],
])('%s', (_title, spec, expected) => {
  expect(specs([service(spec)])).toMatchObject([expected]);
});

test('a number that the type does not take any more is left out', () => {
  expect(specs([service({ ports: [http] })])).toEqual([
    { clusterIP: '10.96.0.31', clusterIPs: ['10.96.0.31'], ports: [http] },
  ]);
});

test.each<[string, JsonObject]>([
  ['a headless Service', { clusterIP: 'None', ports: [{ name: 'http', port: 80 }] }],
  ['an ExternalName', { type: 'ExternalName', externalName: 'example.org' }],
])('%s stays as it is', (_title, spec) => {
  expect(specs([service(spec)])).toEqual([spec]);
});

test('Services without an allocation are passed over, and status is left out', () => {
  const other = { ...service({}), value: { metadata: { name: 'other', namespace: 'shop' } } };
  const text = allocationsAsManifests([other, service({}, { status: { loadBalancer: {} } })], [given]);
  expect(parseAllDocuments(text)).toHaveLength(1);
  expect(text).not.toContain('status');
});

test('texts that YAML 1.1 takes for something else are quoted', () => {
  const selector = { a: 'yes', b: '012', c: '1:30', d: 'null', e: '~', f: '1e3' };
  expect(specs([service({ selector })])).toMatchObject([{ selector }]);
});
