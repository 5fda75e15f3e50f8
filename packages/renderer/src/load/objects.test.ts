import { expect, test } from 'vitest';
import type { Json } from '../render/model/kube.ts';
import { findObjects } from './objects.ts';

/** `what kind path` of all objects found. */
function found(value: Json): string[] {
  return findObjects(value).map((object) => {
    const kind = 'kind' in object ? ` ${object.kind}` : '';
    return `${object.is}${kind} ${object.path.join('.')}`.trim();
  });
}

const service = { apiVersion: 'v1', kind: 'Service' };
const slice = { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice' };
const proxyText = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n';

test.each<[string, Json, string[]]>([
  ['an object of each kind', { apiVersion: 'v1', kind: 'Node' }, ['object Node']],
  ['an EndpointSlice', slice, ['object EndpointSlice']],
  ['nothing', null, []],
  [
    'a List',
    { apiVersion: 'v1', kind: 'List', items: [service, slice] },
    ['object Service items.0', 'object EndpointSlice items.1'],
  ],
  [
    'a List in a List',
    { apiVersion: 'v1', kind: 'List', items: [{ apiVersion: 'v1', kind: 'List', items: [service] }] },
    ['object Service items.0.items.0'],
  ],
  [
    'a typed list, whose items need no kind',
    { apiVersion: 'v1', kind: 'ServiceList', items: [{ metadata: {} }, service] },
    ['object Service items.0', 'object Service items.1'],
  ],
  [
    'an EndpointSliceList',
    { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSliceList', items: [{}] },
    ['object EndpointSlice items.0'],
  ],
  ['a list without items', { apiVersion: 'v1', kind: 'NodeList', items: null }, []],
  [
    'a list of another kind',
    { apiVersion: 'v1', kind: 'PodList', items: [{}, {}] },
    ['ignored Pod items.0', 'ignored Pod items.1'],
  ],
  [
    'a kind that only sounds like a list',
    { apiVersion: 'x.io/v1', kind: 'AllowList', spec: {} },
    ['ignored AllowList'],
  ],
  [
    'a Service of Knative',
    { apiVersion: 'serving.knative.dev/v1', kind: 'Service' },
    ['ignored Service.serving.knative.dev'],
  ],
  ['an old Service', { apiVersion: 'v1beta3', kind: 'Service' }, ['unknown-version Service']],
  [
    'an EndpointSlice of v1alpha1',
    { apiVersion: 'discovery.k8s.io/v1alpha1', kind: 'EndpointSlice' },
    ['unknown-version EndpointSlice'],
  ],
  [
    'an EndpointSliceList of v1beta1',
    { apiVersion: 'discovery.k8s.io/v1beta1', kind: 'EndpointSliceList', items: [{}] },
    ['object EndpointSlice items.0'],
  ],
  ['an EndpointSlice without group', { apiVersion: 'v1', kind: 'EndpointSlice' }, ['unknown-version EndpointSlice']],
  [
    'a KubeProxyConfiguration',
    { apiVersion: 'kubeproxy.config.k8s.io/v1alpha1', kind: 'KubeProxyConfiguration' },
    ['kube-proxy'],
  ],
  [
    "kube-proxy's ConfigMap",
    { apiVersion: 'v1', kind: 'ConfigMap', data: { 'config.conf': proxyText } },
    ['kube-proxy'],
  ],
  ['another ConfigMap', { apiVersion: 'v1', kind: 'ConfigMap', data: { 'config.conf': 'x' } }, ['ignored ConfigMap']],
  ['a SluiceConfig', { apiVersion: 'sluice.dev/v1alpha1', kind: 'SluiceConfig' }, ['sluice-config']],
  ['a Node of a bundle', { apiVersion: 'sluice.dev/v1alpha1', kind: 'Node' }, ['ignored Node.sluice.dev']],
  ['a text', 'x', ['malformed']],
  ['a list without kind', [service], ['malformed']],
  ['a map without kind', { apiVersion: 'v1' }, ['malformed']],
  ['a map without apiVersion', { kind: 'Service' }, ['malformed']],
  ['a kind that is not a string', { apiVersion: 'v1', kind: 1 }, ['malformed']],
  ['items that are not a list', { apiVersion: 'v1', kind: 'List', items: {} }, ['malformed items']],
  ['an empty item', { apiVersion: 'v1', kind: 'List', items: [null] }, ['malformed items.0']],
  ['a kind that every object inherits', { apiVersion: 'v1', kind: 'toString' }, ['ignored toString']],
])('%s', (_title, value, expected) => {
  expect(found(value)).toEqual(expected);
});

test('ignores a JSON Schema, and refuses another map without a kind', () => {
  expect(findObjects({ $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object' })).toEqual([
    { is: 'ignored', kind: 'JSON Schema', path: [] },
  ]);
  expect(findObjects({ type: 'object' })).toMatchObject([{ is: 'malformed' }]);
});
