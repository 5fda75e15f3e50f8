import type { Problem } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { changed, endpoint, lines, modelOf, node, normalised, service, slice } from '../builders.fixture.ts';
import type { Json, JsonObject, KubeObject } from '../model/kube.ts';
import { readObjects } from './read.ts';

const betaOf = (one: KubeObject): KubeObject => {
  const apiVersion = 'discovery.k8s.io/v1beta1';
  return { ...one, apiVersion, value: { ...one.value, apiVersion } };
};
const beta = (fields: JsonObject): KubeObject => betaOf(slice('web', { endpoints: [endpoint('10.244.1.5', fields)] }));

function problemsOf(one: KubeObject): Problem[] {
  const problems: Problem[] = [];
  readObjects([one], problems);
  return problems;
}

const zone = 'topology.kubernetes.io/zone';
const hostname = 'kubernetes.io/hostname';

test.each<[string, JsonObject, string | undefined, string | undefined]>([
  ['zone and node out of topology', { topology: { [zone]: 'a', [hostname]: 'node-1' } }, 'node-1', 'a'],
  ['nodeName wins over the host name', { nodeName: 'node-2', topology: { [hostname]: 'Node_1' } }, 'node-2', undefined],
  ['other keys say nothing', { topology: { rack: '7' } }, undefined, undefined],
  ['empty values are none', { topology: { [zone]: '', [hostname]: '' } }, undefined, undefined],
  ['no topology', {}, undefined, undefined],
])('v1beta1: %s', (_title, fields, nodeName, expectedZone) => {
  expect(problemsOf(beta(fields))).toEqual([]);
  const [web] = modelOf([service('web'), beta(fields)]).services;
  const [found] = web?.ports[0]?.families.ipv4?.endpoints ?? [];
  expect([found?.nodeName, found?.zone]).toEqual([nodeName, expectedZone]);
});

test.each<[string, KubeObject, string]>([
  ['a zone of v1 in v1beta1', beta({ zone: 'a' }), 'warning FIELD_UNKNOWN EndpointSlice web-1#endpoints.0.zone'],
  [
    'topology of v1beta1 in v1',
    slice('web', { endpoints: [endpoint('10.244.1.5', { topology: {} })] }),
    'warning FIELD_UNKNOWN EndpointSlice web-1#endpoints.0.topology',
  ],
  [
    'a malformed zone in topology',
    beta({ topology: { [zone]: 'a b' } }),
    `error NAME_INVALID EndpointSlice web-1#endpoints.0.topology.${zone}`,
  ],
  [
    'a host name that no Node can have',
    beta({ topology: { [hostname]: 'Node_1' } }),
    `error NAME_INVALID EndpointSlice web-1#endpoints.0.topology.${hostname}`,
  ],
])('each version has its own fields: %s', (_title, one, line) => {
  expect(lines(problemsOf(one))).toEqual([line]);
});

test('one slice in both versions is one slice, unless they differ', () => {
  const v1 = slice('web', { endpoints: [endpoint('10.244.1.5', { zone: 'a', nodeName: 'node-1' })] });
  const same = beta({ topology: { [zone]: 'a', [hostname]: 'node-1' } });
  expect(normalised([node('node-1'), service('web'), v1, same]).problems).toEqual([]);
  const other = beta({ topology: { [zone]: 'b', [hostname]: 'node-1' } });
  expect(normalised([node('node-1'), service('web'), v1, other]).problems).toMatchObject([{ code: 'OBJECT_CONFLICT' }]);
});

const unowned = (labels: Json, name = 'web-1'): KubeObject => slice('web', {}, { name, labels });

test.each<[string, KubeObject]>([
  ['without labels', unowned({}, 'loose')],
  ['without a value', unowned({ 'kubernetes.io/service-name': '' }, 'loose')],
  ['of v1beta1', betaOf(unowned({}, 'loose'))],
  ['of addressType FQDN', slice('web', { addressType: 'FQDN' }, { name: 'loose', labels: {} })],
])('a slice %s is ignored, and does not affect the others', (_title, loose) => {
  const objects = [service('web', { selector: { app: 'web' } }), slice('web', { endpoints: [] })];
  const { model, problems } = normalised([...objects, loose]);
  expect(model).toEqual(modelOf(objects));
  // Nothing is missing for want of a slice that could not be read, so gaps are still told.
  expect(problems.map(({ code, level }) => `${level} ${code}`).toSorted()).toEqual([
    'warning SERVICE_WITHOUT_ENDPOINTS',
    'warning SLICE_WITHOUT_SERVICE',
  ]);
});

test('a slice without its label in the change replaces the one of the base', () => {
  const base = [service('web'), slice('web')];
  const endpoints = (change: readonly KubeObject[]): unknown =>
    modelOf(change, { base }).services[0]?.ports[0]?.families.ipv4?.endpoints;
  expect(endpoints([])).toHaveLength(1);
  expect(endpoints([unowned({})])).toEqual([]);
});

test('invalid fields of an ignored slice are not errors', () => {
  const odd = unowned({}).value;
  const value = changed(odd, { addressType: undefined, ports: 'x', endpoints: 7 });
  expect(lines(problemsOf({ ...unowned({}), value }))).toEqual([
    'warning SLICE_WITHOUT_SERVICE EndpointSlice web-1#metadata.labels.kubernetes.io/service-name',
  ]);
});
