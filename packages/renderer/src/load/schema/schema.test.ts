import { nearest } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { checkSchema, printPath, type Schema } from './schema.ts';
import { parseGoDuration, printGoDuration } from './duration.ts';
import { kubeProxySchema } from './kubeproxy.ts';
import { printSluiceSchema, sluiceSchema } from './sluice.ts';

test('prints the enforced schema for editors', async () => {
  // `vitest -u` writes it again.
  await expect(printSluiceSchema()).toMatchFileSnapshot('../../../../../docs/schema/sluiceconfig.schema.json');
});

/** Every schema below one, with its path. */
function below(schema: Schema, path: string): [string, Schema][] {
  const children = [
    ...Object.entries(schema.properties ?? {}).map(([name, child]) => [`${path}.${name}`, child] as const),
    ...(schema.items ? [[`${path}[]`, schema.items] as const] : []),
    ...(schema.additionalProperties ? [[`${path}.*`, schema.additionalProperties] as const] : []),
  ];
  return [[path, schema], ...children.flatMap(([name, child]) => below(child, name))];
}

test.each(below(sluiceSchema, 'sluice.yaml'))(
  '%s has a description and a valid default and examples',
  (_path, schema) => {
    expect(schema.description).toMatch(/\.$/);
    const values = [...(schema.default === undefined ? [] : [schema.default]), ...(schema.examples ?? [])];
    expect(values.flatMap((value) => checkSchema(schema, value, { nullIsUnset: false }))).toEqual([]);
  },
);

const profileFields = sluiceSchema.properties?.['profiles']?.items?.properties ?? {};
const shared = below({ type: 'object', properties: profileFields }, '')
  .map(([path, schema]) => [path.slice(1), schema] as const)
  .filter(
    ([path]) =>
      !/^$|^name$|^nodeSelector|^kubeProxyVersion$|^families|^sysctls|^iptables.randomFully$|^nftables.(?:tcpReset|affinityClients|endpointCounters)$|[\]*]$/.test(
        path,
      ),
  );

test.each(shared)('%s has the same type in a profile and in KubeProxyConfiguration', (path, schema) => {
  const theirs = path.split('.').reduce<Schema | undefined>((at, key) => at?.properties?.[key], kubeProxySchema);
  const { type, minimum, maximum, description } = theirs ?? {};
  const own = { type: schema.type, minimum: schema.minimum, maximum: schema.maximum, description: schema.description };
  expect({ type, minimum, maximum, description }).toEqual(own);
});

test('treats null as a value, or as unset like Kubernetes', () => {
  const schema: Schema = { type: 'object', required: ['a'], properties: { a: { type: 'string' } } };
  expect(checkSchema(schema, { a: null }, { nullIsUnset: false })).toMatchObject([{ kind: 'type', path: ['a'] }]);
  expect(checkSchema(schema, { a: null }, { nullIsUnset: true })).toMatchObject([{ kind: 'missing', path: [] }]);
});

test('treats keys of the prototype as ordinary keys', () => {
  const schema: Schema = { type: 'object', additionalProperties: false, properties: {} };
  const value = JSON.parse('{"__proto__": 1, "constructor": 2}') as never;
  expect(checkSchema(schema, value, { nullIsUnset: false }).map(({ path }) => path[0])).toEqual([
    '__proto__',
    'constructor',
  ]);
});

test.each([
  [[], ''],
  [['profiles', 0, 'iptables'], 'profiles[0].iptables'],
  [['sysctls', 'net.ipv4.ip_forward'], 'sysctls["net.ipv4.ip_forward"]'],
] as const)('prints the path %j as %s', (path, expected) => {
  expect(printPath(path)).toBe(expected);
});

test.each([
  ['24h0m0s', 86400],
  ['1h30m', 5400],
  ['1.5h', 5400],
  ['.5s', 0.5],
  ['250ms', 0.25],
  ['1m0.5s', 60.5],
  ['-30s', -30],
  ['+30s', 30],
  ['0', 0],
  ['0s', 0],
  ['', undefined],
  ['30', undefined],
  ['s', undefined],
  ['.s', undefined],
  ['1 s', undefined],
  ['1d', undefined],
  ['1h-30m', undefined],
  ['--1s', undefined],
  ['1e3s', undefined],
  ['10000000h', undefined],
])('reads the duration %j as %s seconds like Go', (text, seconds) => {
  expect(parseGoDuration(text)).toBe(seconds);
});

test.each([
  [0, '0s'],
  [59, '59s'],
  [90, '1m30s'],
  [3600, '1h0m0s'],
  [86399, '23h59m59s'],
])('prints %i seconds like Go: %s', (seconds, text) => {
  expect(printGoDuration(seconds)).toBe(text);
  expect(parseGoDuration(text)).toBe(seconds);
});

test.each([
  ['clusterNme', 'clusterName'],
  ['serviceCidrs', 'serviceCIDRs'],
  ['Complete', 'complete'],
  ['node', 'nodes'],
  ['replicas', undefined],
  ['x', undefined],
] as const)('suggests for %s: %s', (text, expected) => {
  expect(nearest(text, Object.keys(sluiceSchema.properties ?? {}))).toBe(expected);
});
