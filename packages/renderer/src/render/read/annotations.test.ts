import { expect, test } from 'vitest';
import { config, modelOf, lines, node, normalised, profile, service, slice } from '../builders.fixture.ts';
import type { Json, KubeObject } from '../kube.ts';

const annotated = (annotations: Json): KubeObject => {
  const plain = service('web');
  const metadata = { ...(plain.value['metadata'] as { [key: string]: Json }), annotations };
  return { ...plain, value: { ...plain.value, metadata } };
};
const weights = (text: string): KubeObject => annotated({ 'sluice.dev/weights': text });

test.each([
  ['one label', 'example.com/big=true:5', [{ label: 'example.com/big', value: 'true', weight: 5 }]],
  [
    'labels in their order, with spaces between',
    'topology.kubernetes.io/zone=a:65535, pool=:1',
    [
      { label: 'topology.kubernetes.io/zone', value: 'a', weight: 65_535 },
      { label: 'pool', value: '', weight: 1 },
    ],
  ],
])('weights are read: %s', (_title, text, expected) => {
  const [web] = modelOf([weights(text), slice('web')]).services;
  expect(web?.weights).toEqual(expected);
});

test.each([
  ['nothing', ''],
  ['no weight', 'zone=a'],
  ['a weight of 0, which would take endpoints out', 'zone=a:0'],
  ['a weight beyond 16 bits', 'zone=a:65536'],
  ['a negative weight', 'zone=a:-1'],
  ['a fraction', 'zone=a:1.5'],
  ['a label that is none', 'a b=c:1'],
  ['a value that is none', 'zone=a/b:1'],
  ['a line end, which would start another line of a file', 'zone=a:1\nx=y:2'],
  ['an empty entry', 'zone=a:1,'],
  ['too many entries', Array.from({ length: 65 }, (_, index) => `zone=z${index}:2`).join(',')],
])('weights are refused: %s', (_title, text) => {
  const place = 'Service web#metadata.annotations.sluice.dev/weights';
  expect(lines(normalised([weights(text), slice('web')]).problems)).toEqual([`error FIELD_VALUE ${place}`]);
});

test.each([['rrr'], ['RR'], [''], ['rr ']])('scheduler %j is refused', (scheduler) => {
  const place = 'Service web#metadata.annotations.sluice.dev/scheduler';
  const { problems } = normalised([annotated({ 'sluice.dev/scheduler': scheduler }), slice('web')]);
  expect(lines(problems)).toContain(`error FIELD_VALUE ${place}`);
});

test('reads a scheduler and ignores other annotations', () => {
  const annotations = { 'sluice.dev/scheduler': 'wlc', 'example.com/number': '1' };
  expect(modelOf([annotated(annotations), slice('web')]).services[0]?.scheduler).toBe('wlc');
});

test('a node keeps only labels that weights name', () => {
  const labels = { 'example.com/big': 'true', 'example.com/rack': '7' };
  const [known] = modelOf([weights('example.com/big=true:5'), slice('web'), node('node-1', {}, labels)]).nodes;
  expect(known?.labels).toEqual(new Map([['example.com/big', 'true']]));
});

const ipvs = (scheduler: 'rr' | 'wrr') => ({
  mode: 'ipvs' as const,
  ipvs: { scheduler, excludeCIDRs: [], strictARP: false, timeouts: { tcp: 0, tcpFin: 0, udp: 0 } },
});

test.each([
  ['a scheduler that looks at them says nothing', [profile('a', ipvs('wrr'))], []],
  ['a scheduler that does not is a warning', [profile('a', ipvs('rr'))], ['warning WEIGHTS_IGNORED']],
  ['mode iptables has none', [profile('a')], ['note ANNOTATION_IGNORED']],
])('weights: %s', (_title, profiles, expected) => {
  const { problems } = normalised([weights('zone=a:2'), slice('web')], { config: config({ profiles }) });
  const found = problems.filter(({ code }) => code.endsWith('IGNORED')).map(({ level, code }) => `${level} ${code}`);
  expect(found).toEqual(expected);
});
