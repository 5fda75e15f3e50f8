import { expect, test } from 'vitest';
import { config, modelOf, lines, node, normalised, profile, service, slice } from '../builders.fixture.ts';
import type { Json, KubeObject } from '../model/kube.ts';

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

test.each(['random', 'round-robin', 'source-hash', 'maglev', 'lc'])('reads scheduler %s', (scheduler) => {
  const [web] = modelOf([annotated({ 'sluice.dev/scheduler': scheduler }), slice('web')]).services;
  expect(web?.scheduler).toBe(scheduler);
});

test('reads the size of a Maglev table', () => {
  const annotations = { 'sluice.dev/scheduler': 'maglev', 'sluice.dev/maglev-table-size': '10007' };
  expect(modelOf([annotated(annotations), slice('web')]).services[0]?.maglevSize).toBe(10_007);
});

test.each(['', '1008', '65537', '1009 ', '-251'])('refuses a table of %j slots', (size) => {
  const place = 'Service web#metadata.annotations.sluice.dev/maglev-table-size';
  const { problems } = normalised([annotated({ 'sluice.dev/maglev-table-size': size }), slice('web')]);
  expect(lines(problems)).toContain(`error FIELD_VALUE ${place}`);
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

const nftables = { mode: 'nftables' as const, nftables: { masqueradeAll: false } };
const scheduler = (name: string) => ({ 'sluice.dev/scheduler': name });

/** A Service with session affinity, too. */
function sticky(annotations: Json): KubeObject {
  const plain = annotated(annotations);
  return {
    ...plain,
    value: { ...plain.value, spec: { ...(plain.value['spec'] as object), sessionAffinity: 'ClientIP' } },
  };
}

test.each([
  ['a scheduler in mode iptables', annotated(scheduler('maglev')), [profile('a')], ['differs DIFFERS_SCHEDULER']],
  ['random in mode iptables', annotated(scheduler('random')), [profile('a')], []],
  ['one of mode ipvs in mode iptables', annotated(scheduler('wlc')), [profile('a')], ['note ANNOTATION_IGNORED']],
  ['a scheduler in mode nftables', annotated(scheduler('round-robin')), [profile('a', nftables)], []],
  ['weights in mode nftables', weights('zone=a:2'), [profile('a', nftables)], []],
  [
    'one of mode ipvs in mode nftables',
    annotated(scheduler('wlc')),
    [profile('a', nftables)],
    ['note ANNOTATION_IGNORED'],
  ],
  [
    'session affinity in mode nftables',
    sticky(scheduler('maglev')),
    [profile('a', nftables)],
    ['warning SCHEDULER_IGNORED'],
  ],
  ['session affinity at random', sticky(scheduler('random')), [profile('a', nftables)], []],
  ['session affinity in mode ipvs', sticky(scheduler('maglev')), [profile('a', ipvs('rr'))], []],
  [
    'a size without a table',
    annotated({ 'sluice.dev/maglev-table-size': '251' }),
    [profile('a', nftables)],
    ['note ANNOTATION_IGNORED'],
  ],
  [
    'a size in mode ipvs',
    annotated({ ...scheduler('maglev'), 'sluice.dev/maglev-table-size': '251' }),
    [profile('a', ipvs('rr'))],
    ['note ANNOTATION_IGNORED'],
  ],
])('what annotations do not do is listed: %s', (_title, object, profiles, expected) => {
  const { problems } = normalised([object, slice('web')], { config: config({ profiles }) });
  const own = ['ANNOTATION_IGNORED', 'SCHEDULER_IGNORED', 'DIFFERS_SCHEDULER', 'MAGLEV_TABLE_SMALL', 'WEIGHTS_IGNORED'];
  const found = problems.filter(({ code }) => own.includes(code));
  expect(found.map(({ level, code }) => `${level} ${code}`)).toEqual(expected);
  expect(found.every(({ at }) => at !== undefined)).toBe(true);
});

test.each([
  [20, '251', []],
  [26, '251', ['warning MAGLEV_TABLE_SMALL: 26 endpoints have only 251 slots']],
  [26, '1009', []],
  [252, '251', ['warning MAGLEV_TABLE_SMALL: 252 endpoints have only 251 slots, so that some get no connection']],
])('%d endpoints in a table of %s slots', (count, size, expected) => {
  const annotations = { ...scheduler('maglev'), 'sluice.dev/maglev-table-size': size };
  const pods = Array.from({ length: count }, (_, at) => ({ addresses: [`10.244.${at >> 7}.${(at & 127) + 1}`] }));
  const plain = slice('web');
  const many = { ...plain, value: { ...plain.value, endpoints: pods as unknown as Json } };
  const { problems } = normalised([annotated(annotations), many], {
    config: config({ profiles: [profile('a', nftables)] }),
  });
  const found = problems.filter(({ code }) => code === 'MAGLEV_TABLE_SMALL');
  expect(found.map(({ level, code, message }) => `${level} ${code}: ${message}`)).toEqual(
    expected.map((text) => expect.stringContaining(text.slice(text.indexOf(': ') + 2)) as string),
  );
});
