import type { JsonObject } from '../../packages/renderer/src/render/model/kube.ts';
import { endpoint, type Input, type Question } from './cluster.ts';
import type { FieldRow } from './rows.ts';

/** The fields of an EndpointSlice that mean something to packets. */

const toService: Question = { from: 'client', to: '10.96.0.10:80/tcp' };
const fromOtherNode: Question = { from: 'client of node-2', to: '10.96.0.10:80/tcp' };
const both = 'a | b';

const slice = (fields: JsonObject): Input => ({ slice: fields });
const endpoints = (...list: readonly JsonObject[]): Input => slice({ endpoints: [...list] });

export const sliceFields: readonly FieldRow[] = [
  {
    field: 'EndpointSlice metadata.labels',
    set: slice({ metadata: { labels: { 'kubernetes.io/service-name': 'other' } } }),
    checks: [{ ask: toService, set: 'reject', unset: both }],
  },
  {
    field: 'EndpointSlice addressType',
    given: endpoints(endpoint('a', { addresses: ['10.244.1.5'] })),
    set: slice({ addressType: 'IPv6', endpoints: [endpoint('a', { addresses: ['fd00:10:244:1::5'] })] }),
    checks: [{ ask: toService, set: 'reject', unset: 'a' }],
  },
  {
    field: 'EndpointSlice endpoints.addresses',
    set: endpoints(endpoint('a'), endpoint('b', { addresses: ['10.244.2.6'] })),
    checks: [{ ask: toService, set: 'a | c', unset: both }],
  },
  {
    field: 'EndpointSlice endpoints.nodeName',
    given: { service: { spec: { internalTrafficPolicy: 'Local' } } },
    set: endpoints(endpoint('a', { nodeName: 'node-2' }), endpoint('b')),
    checks: [
      // A virtual server without real servers refuses.
      { ask: toService, set: { iptables: 'drop', ipvs: 'reject', nftables: 'drop' }, unset: 'a' },
      { ask: fromOtherNode, set: both, unset: 'b' },
    ],
  },
  {
    field: 'EndpointSlice endpoints.topology',
    given: {
      service: { spec: { internalTrafficPolicy: 'Local' } },
      slice: { apiVersion: 'discovery.k8s.io/v1beta1' },
    },
    set: endpoints(endpoint('a', { nodeName: null, topology: { 'kubernetes.io/hostname': 'node-2' } }), endpoint('b')),
    checks: [{ ask: fromOtherNode, set: both, unset: 'b' }],
  },
  {
    field: 'EndpointSlice endpoints.conditions.ready',
    set: endpoints(endpoint('a', { conditions: { ready: false } }), endpoint('b')),
    checks: [{ ask: toService, set: 'b', unset: both }],
  },
  {
    field: 'EndpointSlice endpoints.conditions.serving',
    given: endpoints(endpoint('a', { conditions: { ready: false, terminating: true } })),
    set: endpoints(endpoint('a', { conditions: { ready: false, serving: false, terminating: true } })),
    checks: [{ ask: toService, set: 'reject', unset: 'a' }],
  },
  {
    field: 'EndpointSlice endpoints.conditions.terminating',
    set: endpoints(endpoint('a', { conditions: { ready: false, serving: true, terminating: true } })),
    unset: endpoints(endpoint('a', { conditions: { ready: false, serving: true } })),
    checks: [{ ask: toService, set: 'a', unset: 'reject' }],
  },
  {
    field: 'EndpointSlice endpoints.hints.forZones',
    set: endpoints(
      endpoint('a', { hints: { forZones: [{ name: 'east' }] } }),
      endpoint('b', { hints: { forZones: [{ name: 'west' }] } }),
    ),
    checks: [
      { ask: toService, set: 'a', unset: both },
      { ask: fromOtherNode, set: 'b', unset: both },
    ],
  },
  {
    field: 'EndpointSlice endpoints.hints.forNodes',
    set: endpoints(
      endpoint('a', { hints: { forNodes: [{ name: 'node-2' }] } }),
      endpoint('b', { hints: { forNodes: [{ name: 'node-1' }] } }),
    ),
    checks: [
      { ask: toService, set: 'b', unset: both },
      { ask: fromOtherNode, set: 'a', unset: both },
    ],
  },
  {
    field: 'EndpointSlice ports.name',
    set: slice({ ports: [{ name: 'other', port: 8080 }] }),
    checks: [{ ask: toService, set: 'reject', unset: both }],
  },
  {
    field: 'EndpointSlice ports.protocol',
    set: slice({ ports: [{ name: 'http', port: 8080, protocol: 'UDP' }] }),
    checks: [{ ask: toService, set: 'reject', unset: both }],
  },
  {
    field: 'EndpointSlice ports.port',
    set: slice({ ports: [{ name: 'http', port: 8081 }] }),
    checks: [{ ask: toService, set: '10.244.1.5:8081 | 10.244.2.5:8081', unset: both }],
  },
];
