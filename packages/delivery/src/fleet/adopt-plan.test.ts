// @module-tag quick
import { type ParityReport, printWaves, readWaveSpecs } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { differenceWith, gap, reportWith } from '../../../bundle/src/parity/report.fixture.ts';
import { adoptPlanText } from '../commands/adopt-plan/adopt-plan.ts';
import { readNodeLabels } from '../commands/input/node-labels.ts';
import { type AdoptCandidate, planAdoption, waveSpecsOf } from './adopt-plan.ts';

const difference = differenceWith();
const ofMode = differenceWith({ cause: 'mode', code: 'DIFFERS_AFFINITY' });

const candidate = (node: string, group: string, change: Partial<ParityReport> = {}): AdoptCandidate => ({
  node,
  group,
  report: reportWith({ node, ...change }),
});

const plan = planAdoption([
  candidate('a-2', 'zone-a'),
  candidate('a-1', 'zone-a', { differences: [ofMode] }),
  candidate('a-3', 'zone-a'),
  candidate('b-1', 'zone-b', { differences: [ofMode] }),
  candidate('b-2', 'zone-b', { differences: [difference, ofMode] }),
  candidate('c-1', 'zone-c', { coverage: { frontends: 1, sources: 1, cases: 1, notCovered: [gap] } }),
  { node: 'c-2', group: 'zone-c', report: undefined },
  candidate('d-1', 'zone-d', { base: { version: '0'.repeat(16), known: 3 } }),
  { ...candidate('d-2', 'zone-d'), group: undefined },
]);

test('a canary of each group comes first, an equivalent node where there is one', () => {
  expect(plan.waves).toEqual([
    { name: 'canary', nodes: ['a-2', 'b-1'] },
    { name: 'equivalent', nodes: ['a-3'] },
    { name: 'documented', nodes: ['a-1'] },
  ]);
});

test('nodes that differ, or were not compared, are in no wave, with the reason', () => {
  expect(plan.blocked).toEqual([
    { node: 'b-2', why: 'config: shop/web 10.96.0.10:80/tcp' },
    { node: 'c-1', why: 'incomplete: -A FORWARD -m u32 -j DROP (option --u32 is not read)' },
    { node: 'c-2', why: 'no report: it was not compared' },
    { node: 'd-1', why: 'its report leaves differences out: compare without --base' },
    { node: 'd-2', why: 'it is not among the Nodes of the cluster' },
  ]);
});

test('a wave has at most so many nodes, in parts whose names a release takes', () => {
  const nodes = ['n-1', 'n-2', 'n-3', 'n-4', 'n-5', 'n-6'].map((node) => candidate(node, 'zone'));
  const named = (most?: number) =>
    planAdoption(nodes, most).waves.map(({ name, nodes: of }) => `${name}: ${of.join()}`);
  expect(named(2)).toEqual(['canary: n-1', 'equivalent: n-2,n-3', 'equivalent-2: n-4,n-5', 'equivalent-3: n-6']);
  expect(named(5)).toEqual(['canary: n-1', 'equivalent: n-2,n-3,n-4,n-5,n-6']);
  expect(named()).toEqual(named(5));
  const specs = waveSpecsOf(planAdoption(nodes, 2));
  expect(readWaveSpecs('waves.yaml', printWaves(specs))).toEqual(specs);
});

test('the waves are a file that `sluice release --wave` reads, with blocked nodes last', () => {
  const specs = waveSpecsOf(plan);
  expect(readWaveSpecs('waves.yaml', printWaves(specs))).toEqual(specs);
  expect(specs.at(-1)).toEqual({ name: 'blocked', nodes: ['b-2', 'c-1', 'c-2', 'd-1', 'd-2'] });
});

test('labels are read of a list of Nodes, and of nothing else', () => {
  const node = { kind: 'Node', metadata: { name: 'a-1', labels: { 'topology.kubernetes.io/zone': 'zone-a' } } };
  expect(
    readNodeLabels(JSON.stringify({ items: [node] }))
      ?.get('a-1')
      ?.get('topology.kubernetes.io/zone'),
  ).toBe('zone-a');
  for (const odd of ['', '[]', '{"items": [{"kind": "Pod", "metadata": {"name": "x"}}]}', '{"items": [null]}'])
    expect(readNodeLabels(odd)).toBeUndefined();
});

test('the text has a line for each wave and each node in none, whatever a report says', () => {
  const hostile = differenceWith({ services: ['shop/\u001B[2Jweb\nwave 9'] });
  const nodes = [candidate('a-1', 'zone-a'), candidate('a-2', 'zone-a', { differences: [hostile] })];
  expect(adoptPlanText(planAdoption(nodes))).toBe(
    'wave 1  canary      a-1\nin no wave: 1\n  a-2  config: shop/?[2Jweb?wave 9 10.96.0.10:80/tcp\n',
  );
});
