import type { Problem } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { type Changes, endpoints, lines, node, service, slice } from '../builders.fixture.ts';
import type { KubeObject } from '../model/kube.ts';
import { readObjects } from '../read/read.ts';
import type { ReadService } from '../read/read-service.ts';
import { type LayeredObjects, layer } from './layer.ts';

interface Result extends LayeredObjects {
  readonly problems: readonly Problem[];
}

function layered(base: readonly KubeObject[], change: readonly KubeObject[]): Result {
  const problems: Problem[] = [];
  const result = layer(readObjects(base, problems), readObjects(change, problems), problems);
  return { ...result, problems };
}

/** What is left of Service `shop/web` of the base after a manifest with another spec. */
function filled(old: KubeObject, next: KubeObject): ReadService | undefined {
  return layered([old], [next]).services.get('shop/web');
}

const ports = (...list: Record<string, string | number>[]): Changes => ({ ports: list });
const dual: Changes = {
  clusterIPs: ['10.96.0.1', 'fd00:96::1'],
  ipFamilyPolicy: 'PreferDualStack',
  ipFamilies: ['IPv4', 'IPv6'],
};
const bare: Changes = { clusterIP: undefined };

test.each<[string, Changes, Changes, readonly string[]]>([
  ['a manifest without addresses keeps them', dual, bare, ['10.96.0.1', 'fd00:96::1']],
  ['an address in the manifest wins', {}, { clusterIP: '10.96.0.9' }, ['10.96.0.9']],
  ['a manifest with the first address keeps the second', dual, { clusterIP: '10.96.0.1' }, ['10.96.0.1', 'fd00:96::1']],
  ['a list of one is the whole list', dual, { clusterIPs: ['10.96.0.1'] }, ['10.96.0.1']],
  ['SingleStack keeps the first', dual, { ...bare, ipFamilyPolicy: 'SingleStack' }, ['10.96.0.1']],
  ['one family keeps its address', dual, { ...bare, ipFamilies: ['IPv6'] }, ['fd00:96::1']],
  ['a family without an address has none', {}, { ...bare, ipFamilies: ['IPv6'] }, []],
  ['families in another order reorder', dual, { ...bare, ipFamilies: ['IPv6', 'IPv4'] }, ['fd00:96::1', '10.96.0.1']],
  ['RequireDualStack keeps the one there is', {}, { ...bare, ipFamilyPolicy: 'RequireDualStack' }, ['10.96.0.1']],
  ['to headless drops it', {}, { clusterIP: 'None' }, []],
  ['to ExternalName drops it', {}, { ...bare, type: 'ExternalName' }, []],
  ['from headless there is nothing to keep', { clusterIP: 'None' }, bare, []],
])('ClusterIPs: %s', (_title, old, next, expected) => {
  expect(filled(service('web', old), service('web', next))?.clusterIPs).toEqual(expected);
});

const a = { name: 'a', port: 80 };
const b = { name: 'b', port: 81 };
const type = (name: string): Changes => ({ type: name });

test.each<[string, Changes, Changes, readonly number[]]>([
  ['stay with the name', ports({ ...a, nodePort: 30_001 }, { ...b, nodePort: 30_002 }), ports(b, a), [30_002, 30_001]],
  [
    'stay with the name although the port changed',
    ports({ ...a, nodePort: 30_001 }),
    ports({ ...a, port: 90 }),
    [30_001],
  ],
  [
    'stay with port and protocol of a renamed port',
    ports({ ...a, nodePort: 30_001 }),
    ports({ name: 'z', port: 80 }),
    [30_001],
  ],
  ['of the manifest win', ports({ ...a, nodePort: 30_001 }), ports({ ...a, nodePort: 30_005 }), [30_005]],
  ['do not follow to another protocol', ports({ ...a, nodePort: 30_001 }), ports({ ...a, protocol: 'UDP' }), [0]],
  ['are not given twice', ports({ ...a, nodePort: 30_001 }), ports(a, { ...b, nodePort: 30_001 }), [0, 30_001]],
  ['of a new port are open', ports({ ...a, nodePort: 30_001 }), ports(a, b), [30_001, 0]],
])('node ports %s', (_title, old, next, expected) => {
  const read = filled(
    service('web', { ...type('NodePort'), ...old }),
    service('web', { ...type('NodePort'), ...next }),
  );
  expect(read?.ports.map((port) => port.nodePort)).toEqual(expected);
});

test('drops node ports, health port and load-balancer addresses of types without them', () => {
  const status = { status: { loadBalancer: { ingress: [{ ip: '192.0.2.9' }] } } };
  const old = service(
    'web',
    {
      ...type('LoadBalancer'),
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 32_000,
      ...ports({ ...a, nodePort: 30_001 }),
    },
    status,
  );
  const local = filled(old, service('web', { ...type('LoadBalancer'), externalTrafficPolicy: 'Local', ...ports(a) }));
  expect(local).toMatchObject({
    healthCheckNodePort: 32_000,
    ingress: [{ address: '192.0.2.9' }],
    ports: [{ nodePort: 30_001 }],
  });
  const cluster = filled(old, service('web', { ...type('LoadBalancer'), ...ports(a) }, { status: {} }));
  expect(cluster).toMatchObject({ healthCheckNodePort: 0, ingress: [{ address: '192.0.2.9' }] });
  const internal = filled(old, service('web', ports(a)));
  expect(internal).toMatchObject({ healthCheckNodePort: 0, ingress: [], ports: [{ nodePort: 0 }] });
});

test('keeps objects of the base that the change does not replace', () => {
  const base = [service('old'), service('web', { sessionAffinity: 'ClientIP' }), slice('web'), node('n')];
  const result = layered(base, [service('web', bare), service('new', bare)]);
  expect([...result.services.keys()]).toEqual(['shop/old', 'shop/web', 'shop/new']);
  expect(result.services.get('shop/web')?.affinitySeconds).toBeUndefined();
  expect(result.slices.map((one) => one.key)).toEqual(['shop/web-1']);
  expect([...result.nodes.keys()]).toEqual(['n']);
  expect([...result.changed]).toEqual(['shop/web', 'shop/new']);
});

test('Endpoints of the change replace the slices mirrored from the old ones', () => {
  const labels = {
    'kubernetes.io/service-name': 'web',
    'endpointslice.kubernetes.io/managed-by': 'endpointslicemirroring-controller.k8s.io',
  };
  const base = [endpoints('web'), slice('web', {}, { name: 'web-m', labels }), slice('web')];
  const result = layered(base, [endpoints('web', { addresses: [{ ip: '10.0.0.9' }] })]);
  expect(result.slices.map((one) => `${one.kind} ${one.name}`)).toEqual(['EndpointSlice web-1', 'Endpoints web']);
});

test('a Node of the change keeps the values that it leaves out', () => {
  const result = layered([node('n')], [node('n', { status: undefined, spec: { podCIDR: '10.244.7.0/24' } })]);
  expect(result.nodes.get('n')).toMatchObject({
    cores: 4,
    address: { ipv4: '192.0.2.11' },
    podCIDR: { ipv4: '10.244.7.0/24' },
  });
});

const target = (targetPort: string | number): Changes => ports({ ...a, targetPort });

test.each<[string, Changes, Changes, readonly KubeObject[], string | undefined]>([
  ['another selector', {}, { selector: { app: 'x' } }, [], 'spec.selector'],
  ['no selector any more', {}, { selector: undefined }, [], 'spec.selector'],
  ['another targetPort', target(8080), target(9090), [], 'spec.ports.0.targetPort'],
  ['a named targetPort', target(8080), target('http'), [], 'spec.ports.0.targetPort'],
  ['another name of the port', ports(a), ports({ name: 'z', port: 80 }), [], 'spec.ports.0.name'],
  ['targetPort spelled out', ports(a), target(80), [], undefined],
  ['another port number only', target(8080), ports({ ...a, port: 90, targetPort: 8080 }), [], undefined],
  ['another policy', {}, { internalTrafficPolicy: 'Local' }, [], undefined],
  ['another selector, with new endpoints', {}, { selector: { app: 'x' } }, [slice('web')], undefined],
  [
    'another selector of a Service that becomes headless',
    {},
    { selector: { app: 'x' }, clusterIP: 'None' },
    [],
    undefined,
  ],
])('endpoints are a guess after %s', (_title, old, next, more, path) => {
  const { problems, slices } = layered([service('web', old), slice('web')], [service('web', next), ...more]);
  expect(lines(problems)).toEqual(path === undefined ? [] : [`guess ENDPOINTS_GUESSED Service web#${path}`]);
  expect(slices).toHaveLength(1);
});

test('does not report guessed endpoints if the base has none', () => {
  expect(layered([service('web')], [service('web', { selector: { app: 'x' } })]).problems).toEqual([]);
});

test.each<[string, KubeObject, KubeObject, string | undefined]>([
  ['two Services', service('web', {}, {}, 'one'), service('web', ports(b), {}, 'two'), 'Service shop/web'],
  ['two slices', slice('web', {}, {}, 'one'), slice('web', { endpoints: [] }, {}, 'two'), 'EndpointSlice shop/web-1'],
  ['two Endpoints', endpoints('web', {}, 'one'), endpoints('web', { addresses: [] }, 'two'), 'Endpoints shop/web'],
  ['a Service and its copy', service('web', {}, {}, 'one'), service('web', {}, {}, 'two'), undefined],
  [
    'a Service with another annotation',
    service('web', {}, {}, 'one'),
    service('web', {}, { annotations: {} }, 'two'),
    undefined,
  ],
])('in one layer: %s', (_title, first, second, title) => {
  for (const objects of [
    [first, second],
    [second, first],
  ]) {
    const { problems } = layered([], objects);
    expect(lines(problems)).toEqual(title === undefined ? [] : ['error OBJECT_CONFLICT two#']);
    const naming = problems.filter((one) => one.object === title && one.message.includes('one#:1:1'));
    expect(naming).toEqual(problems);
  }
});

test('keeps the first of three versions of an object by place, in any order of input', () => {
  const [one, two, three] = ['one', 'three', 'two'].map((file, index) =>
    service('web', { ports: [{ name: 'http', port: 80 + index }] }, {}, file),
  ) as [KubeObject, KubeObject, KubeObject];
  for (const order of [
    [one, two, three],
    [two, three, one],
    [three, one, two],
  ]) {
    const { problems, services } = layered([], order);
    expect(lines(problems).toSorted()).toEqual(['error OBJECT_CONFLICT three#', 'error OBJECT_CONFLICT two#']);
    expect(problems.filter((problem) => problem.message.includes('one#:1:1'))).toEqual(problems);
    expect(services.get('shop/web')?.ports[0]?.port).toBe(80);
  }
});

test('one object in both layers is not a conflict', () => {
  expect(layered([service('web')], [service('web', ports(b))]).problems).toEqual([]);
});
