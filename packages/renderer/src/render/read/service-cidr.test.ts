import { expect, test } from 'vitest';
import { load } from '../../load/load.ts';
import { lines, object } from '../builders.fixture.ts';
import type { Json, JsonObject } from '../model/kube.ts';
import { readObjects } from './read.ts';

const made = (cidrs: Json, more: JsonObject = {}, metadata: JsonObject = {}) =>
  object('ServiceCIDR', { name: 'more', ...metadata }, { spec: { cidrs }, ...more });
const ready = (status: string): JsonObject => ({ status: { conditions: [{ type: 'Ready', status }] } });

test.each([
  ['one CIDR', made(['10.200.0.0/24']), ['10.200.0.0/24'], true],
  ['one of each family', made(['fd00:96::/112', '10.200.0.0/24']), ['fd00:96::/112', '10.200.0.0/24'], true],
  ['that is ready', made(['10.200.0.0/24'], ready('True')), ['10.200.0.0/24'], true],
  ['that is not ready', made(['10.200.0.0/24'], ready('False')), ['10.200.0.0/24'], false],
  [
    'that is going away',
    made(['10.200.0.0/24'], ready('True'), { deletionTimestamp: '2026-01-02T03:04:05Z' }),
    ['10.200.0.0/24'],
    false,
  ],
] as const)('a ServiceCIDR of %s', (_title, cidr, cidrs, isOpen) => {
  const problems: never[] = [];
  expect(readObjects([cidr], problems).serviceCIDRs).toMatchObject([{ name: 'more', cidrs, isOpen }]);
  expect(problems).toEqual([]);
});

test.each<[string, Json, readonly string[]]>([
  ['no list', [], ['error FIELD_MISSING ServiceCIDR more#spec.cidrs']],
  ['no CIDR', ['10.200.0.0'], ['error ADDRESS_INVALID ServiceCIDR more#spec.cidrs.0']],
  ['another type', '10.200.0.0/24', ['error FIELD_TYPE ServiceCIDR more#spec.cidrs']],
  ['two of one family', ['10.200.0.0/24', '10.201.0.0/24'], ['error FIELD_VALUE ServiceCIDR more#spec.cidrs.1']],
  ['three', ['10.200.0.0/24', 'fd00::/112', 'fd01::/112'], ['error FIELD_VALUE ServiceCIDR more#spec.cidrs.2']],
  ['bits behind the prefix', ['10.200.0.7/24'], ['warning ADDRESS_INVALID ServiceCIDR more#spec.cidrs.0']],
])('reports values that the API server refuses: %s', (_title, cidrs, expected) => {
  const problems: Parameters<typeof readObjects>[1] = [];
  const { serviceCIDRs } = readObjects([made(cidrs)], problems);
  expect(lines(problems)).toEqual(expected);
  expect(serviceCIDRs).toHaveLength(expected.some((line) => line.startsWith('error')) ? 0 : 1);
});

const text = `apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: { name: more }
spec:
  cidr: 10.201.0.0/24
  cidrs:
    - 10.200.0.0/33
`;

test('a problem has its line and column, and an unknown field is reported', () => {
  const problems: Parameters<typeof readObjects>[1] = [];
  readObjects(load([{ file: 'ranges.yaml', text }]).objects, problems);
  expect(problems.map(({ code, at, object: title, hint }) => ({ code, at, title, hint }))).toEqual([
    {
      code: 'ADDRESS_INVALID',
      at: { file: 'ranges.yaml', line: 7, column: 7 },
      title: 'ServiceCIDR more',
      hint: 'Write an address and a prefix, such as 198.51.100.0/24',
    },
    {
      code: 'FIELD_UNKNOWN',
      at: { file: 'ranges.yaml', line: 5, column: 9 },
      title: 'ServiceCIDR more',
      hint: 'Did you mean cidrs?',
    },
  ]);
});

test.each([
  ['networking.k8s.io/v1', 1, []],
  ['networking.k8s.io/v1beta1', 1, []],
  ['networking.k8s.io/v2', 0, ['API_VERSION_UNKNOWN']],
])('apiVersion %s', (version, count, codes) => {
  const loaded = load([{ file: 'a.yaml', text: text.replace('networking.k8s.io/v1', version) }]);
  expect(loaded.objects).toHaveLength(count);
  expect(loaded.problems.map(({ code }) => code)).toEqual(codes);
});

test('reads a list from an API server', () => {
  const list = {
    kind: 'ServiceCIDRList',
    apiVersion: 'networking.k8s.io/v1',
    items: [{ metadata: { name: 'a' }, spec: {} }],
  };
  expect(load([{ file: 'list.json', text: JSON.stringify(list) }]).objects.map(({ kind }) => kind)).toEqual([
    'ServiceCIDR',
  ]);
});
