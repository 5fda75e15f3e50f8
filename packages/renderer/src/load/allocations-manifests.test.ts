import { expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import type { Allocation } from '../render/allocate/allocation.ts';
import type { JsonObject, KubeObject } from '../render/model/kube.ts';
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

/** The specs as an API server reads them, in YAML 1.1. */
const specs = (services: readonly KubeObject[], allocation = given): unknown[] =>
  parseAllDocuments(allocationsAsManifests(services, [allocation]), { version: '1.1' }).map(
    (document) => (document.toJS() as { spec: unknown }).spec,
  );

const http = { name: 'http', port: 80 };

test.each<[string, JsonObject, JsonObject]>([
  ['uses one family by default', {}, { clusterIP: '10.96.0.31', clusterIPs: ['10.96.0.31'] }],
  [
    'uses two families for dual stack',
    { ipFamilyPolicy: 'PreferDualStack' },
    { clusterIP: '10.96.0.31', clusterIPs: ['10.96.0.31', 'fd00:96::1f'] },
  ],
  [
    'uses the family of ipFamilies',
    { ipFamilies: ['IPv6'] },
    { clusterIP: 'fd00:96::1f', clusterIPs: ['fd00:96::1f'] },
  ],
  [
    'uses the order of ipFamilies',
    { ipFamilies: ['IPv6'], ipFamilyPolicy: 'RequireDualStack' },
    { clusterIP: 'fd00:96::1f', clusterIPs: ['fd00:96::1f', '10.96.0.31'] },
  ],
  [
    "keeps the manifest's own address and adds the other family",
    { clusterIP: '10.96.0.7', ipFamilies: ['IPv4', 'IPv6'] },
    { clusterIP: '10.96.0.7', clusterIPs: ['10.96.0.7', 'fd00:96::1f'] },
  ],
  [
    "keeps the manifest's own single address",
    { clusterIP: '10.96.0.7' },
    { clusterIP: '10.96.0.7', clusterIPs: ['10.96.0.7'] },
  ],
  [
    'finds ports by name and protocol, TCP by default',
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
    "keeps the manifest's own ports",
    {
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Local',
      ports: [{ ...http, nodePort: 31000 }],
      healthCheckNodePort: 31001,
    },
    { ports: [{ ...http, nodePort: 31000 }], healthCheckNodePort: 31001 },
  ],
  [
    'gives a load balancer with policy Local a health-check port',
    { type: 'LoadBalancer', externalTrafficPolicy: 'Local', ports: [http] },
    { ports: [{ ...http, nodePort: 30001 }], healthCheckNodePort: 30003 },
  ],
])('%s', (_title, spec, expected) => {
  expect(specs([service(spec)])).toMatchObject([expected]);
});

test('omits a port that the type no longer allows', () => {
  expect(specs([service({ ports: [http] })])).toEqual([
    { clusterIP: '10.96.0.31', clusterIPs: ['10.96.0.31'], ports: [http] },
  ]);
});

test.each<[string, JsonObject]>([
  ['a headless Service', { clusterIP: 'None', ports: [{ name: 'http', port: 80 }] }],
  ['an ExternalName', { type: 'ExternalName', externalName: 'example.org' }],
])('leaves %s unchanged', (_title, spec) => {
  expect(specs([service(spec)])).toEqual([spec]);
});

test('ignores Services without an allocation, and omits status', () => {
  const other = { ...service({}), value: { metadata: { name: 'other', namespace: 'shop' } } };
  const text = allocationsAsManifests([other, service({}, { status: { loadBalancer: {} } })], [given]);
  expect(parseAllDocuments(text)).toHaveLength(1);
  expect(text).not.toContain('status');
});

test('quotes strings that YAML 1.1 would misread', () => {
  const selector = { a: 'yes', b: '012', c: '1:30', d: 'null', e: '~', f: '1e3' };
  expect(specs([service({ selector })])).toMatchObject([{ selector }]);
});
