import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { endpoint, node, normalised, service, slice } from '../builders.fixture.ts';
import type { KubeObject } from '../model/kube.ts';

/** Texts that try to inject a rule. */
const hostile = fc.oneof(
  fc.constantFrom(
    '\n',
    '\r',
    '\0',
    '"',
    "'",
    '\\',
    ' -j ACCEPT',
    'COMMIT',
    '*filter',
    '-M /x',
    '\u2028',
    '\u202e',
    '@node=a',
    '${node.address}',
  ),
  fc.constantFrom(
    '10.0.0.1\n-A INPUT',
    'a,b',
    '../..',
    '__proto__',
    'constructor',
    '１０.0.0.1',
    '10.0.0.1/0',
    '0x7f.1',
    '',
  ),
  fc.string(),
  fc.string({ unit: 'binary', maxLength: 80 }),
);
const anywhere = fc
  .tuple(hostile, hostile, fc.constantFrom('', 'web', '10.0.0.1'))
  .map(([a, b, middle]) => a + middle + b);

/** Every place where an object can hold a text, with the text in it. */
const carriers: readonly ((text: string) => KubeObject)[] = [
  (text) => service(text),
  (text) => ({ ...service('web'), value: { ...service('web').value, metadata: { name: 'web', namespace: text } } }),
  (text) => service('web', { ports: [{ name: text, port: 80 }] }),
  (text) => service('web', { ports: [{ name: 'http', port: 80, protocol: text }] }),
  (text) => service('web', { ports: [{ name: 'http', port: 80, targetPort: text }] }),
  (text) => service('web', { clusterIP: text }),
  (text) => service('web', { externalIPs: [text] }),
  (text) => service('web', { type: 'LoadBalancer', loadBalancerSourceRanges: [text] }),
  (text) => service('web', { type: 'LoadBalancer' }, { status: { loadBalancer: { ingress: [{ ip: text }] } } }),
  (text) => service('web', { selector: { [text]: text } }),
  (text) => slice('web', { endpoints: [endpoint(text)] }),
  (text) => slice('web', { endpoints: [endpoint('10.0.0.1', { nodeName: text })] }),
  (text) => slice('web', { endpoints: [endpoint('10.0.0.1', { zone: text, hints: { forZones: [{ name: text }] } })] }),
  (text) => slice('web', {}, { labels: { 'kubernetes.io/service-name': text } }),
  (text) => node(text),
  (text) => node('n', {}, { 'topology.kubernetes.io/zone': text }),
  (text) => node('n', { spec: { podCIDRs: [text] }, status: { addresses: [{ type: 'InternalIP', address: text }] } }),
];

const harmless = /^[A-Za-z0-9./:[\]_-]*$/;

function* textsOf(value: unknown): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (typeof value === 'object' && value !== null)
    for (const [key, item] of Object.entries(value)) yield* [key, ...textsOf(item)];
}

test('the model has only valid texts and problems only printable ones, for random manifests', () => {
  fc.assert(
    fc.property(fc.constantFrom(...carriers), anywhere, (carry, text) => {
      const others = [service('web'), slice('web')];
      const carrier = carry(text);
      const { model, problems } = normalised([carrier, ...others.filter((other) => other.kind !== carrier.kind)]);
      for (const found of textsOf(model)) expect(found).toMatch(harmless);
      for (const problem of problems)
        expect(`${problem.object ?? ''}${problem.message}${problem.hint}`).toMatch(/^[ -~…]*$/);
    }),
    runs(3000),
  );
});
