// @module-tag quick
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { fieldEffects } from '../../packages/renderer/src/load/schema/effect.ts';
import { gates } from '../../packages/renderer/src/load/schema/gates.ts';
import { kubeProxySchema } from '../../packages/renderer/src/load/schema/kubeproxy.ts';
import type { Schema } from '../../packages/renderer/src/load/schema/schema.ts';
import { settingNames } from '../../packages/renderer/src/load/config/settings.ts';
import { newest } from './binaries.ts';
import { fieldLines, gateLines, linesOfSource } from './go-fields.ts';

/** The configuration fields that kube-proxy reads compared with their documented effects: no field is ignored silently. */

const listed = readFileSync(join(import.meta.dirname, 'kube-proxy-fields.txt'), 'utf8')
  .trimEnd()
  .split('\n');
const pairs = listed.map((line) => line.split(' ') as [string, string]);
const typeOf = new Map(pairs.filter(([first]) => first !== 'gate'));
const effects = fieldEffects(kubeProxySchema);

test('the list matches the source of the pinned version', (context) => {
  const lines = linesOfSource();
  if (lines === undefined) return context.skip(`the modules of Kubernetes ${newest} are not in Go's module cache`);
  expect(listed).toEqual(lines);
});

test('every field, and no other, has a documented effect', () => {
  expect([...effects.keys()].toSorted()).toEqual([...typeOf.keys()].toSorted());
});

test('every feature gate that kube-proxy reads, and no other, has a documented effect', () => {
  const known = pairs.filter(([first]) => first === 'gate').map(([, name]) => name);
  expect(Object.keys(gates).toSorted()).toEqual(known.toSorted());
});

const schemaTypes: Readonly<Record<string, string>> = {
  bool: 'boolean',
  int32: 'integer',
  string: 'string',
  '[]string': 'array',
  'map[string]bool': 'object',
  'metav1.Duration': 'string',
  ProxyMode: 'string',
  LocalMode: 'string',
};
/** Nothing depends on the contents of these. */
const opaque = /^(?:clientConnection|logging|winkernel\..*)$/;

test.each([...typeOf].filter(([path]) => !opaque.test(path)))('%s is read as the Go type %s', (path, type) => {
  const schema = path.split('.').reduce<Schema | undefined>((at, key) => at?.properties?.[key], kubeProxySchema);
  expect(schema?.type).toBe(schemaTypes[type.replace(/^\*/, '')]);
  expect(schema?.format === 'go-duration').toBe(type.endsWith('metav1.Duration'));
});

/** The settings of sluice.yaml alone. */
const ours = [
  'nftables.tcpReset',
  'nftables.affinityClients',
  'nftables.endpointCounters',
  'families',
  'iptables.randomFully',
  'kubeProxyVersion',
  'sysctls',
];

test('every followed field is a setting of profiles, and the reverse', () => {
  const isFollowed = ([path, { kind }]: [string, { kind: string }]): boolean =>
    kind === 'followed' && !['apiVersion', 'kind', 'featureGates'].includes(path);
  const followedGates = [...fieldEffects({ type: 'object', properties: gates }, ['featureGates'])].filter(isFollowed);
  const followed = [...[...effects].filter(isFollowed), ...followedGates].map(([path]) => path);
  expect(followed.toSorted()).toEqual(settingNames.filter((name) => !ours.includes(name)).toSorted());
});

test('reads fields from Go source', () => {
  const types = `type Part struct {\n\t// on says\n\tOn *bool \`json:"on"\`\n}\n\ntype KubeProxyConfiguration struct {\n\tmetav1.TypeMeta \`json:""\`\n\n\tPart Part \`json:"part"\`\n\tFar other.Thing \`json:"far,omitempty"\`\n}\n`;
  expect(fieldLines(types)).toEqual(['apiVersion string', 'kind string', 'part.on *bool', 'far other.Thing']);
  const asking =
    'if utilfeature.DefaultFeatureGate.Enabled(features.A) || utilfeature.DefaultFeatureGate.Enabled(kubefeatures.B) {';
  expect(gateLines([asking, asking], ['\tC featuregate.Feature = "C"'])).toEqual(['gate A', 'gate B', 'gate C']);
});
