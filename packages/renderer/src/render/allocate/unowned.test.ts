import { expect, test } from 'vitest';
import { endpoints, object, service, slice } from '../builders.fixture.ts';
import type { KubeObject } from '../model/kube.ts';
import { serviceName, unownedAllocations } from './request.ts';

const allocations = ['default/web', 'shop/api', 'shop/web'].map((key) => {
  const [namespace = '', name = ''] = key.split('/');
  return { namespace, name, clusterIPs: [], nodePorts: {} };
});

test.each<[string, readonly KubeObject[], readonly string[]]>([
  ['nothing', [], ['default/web', 'shop/api', 'shop/web']],
  ['a Service', [service('web')], ['default/web', 'shop/api']],
  [
    'a Service of another namespace alone',
    [object('Service', { name: 'api' }, {})],
    ['default/web', 'shop/api', 'shop/web'],
  ],
  ['a Service without a namespace', [object('Service', { name: 'web' }, {})], ['shop/api', 'shop/web']],
  ['a Service that cannot be read', [service('api', { ports: 'http' })], ['default/web', 'shop/web']],
  ['only endpoints of one', [slice('web'), endpoints('api')], ['default/web', 'shop/api', 'shop/web']],
])('allocations without a Service, where the input has %s', (_title, objects, expected) => {
  expect(unownedAllocations(allocations, objects).map(serviceName)).toEqual(expected);
});
