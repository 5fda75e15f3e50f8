// @module-tag quick
import { type ParityReport, readWaveSpecs } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { printWaveSpecs } from '../emit/fleet/wave-specs.ts';
import { readNodeLabels } from './node-labels.ts';
import { type AdoptCandidate, planAdoption, waveSpecsOf } from './adopt-plan.ts';

const difference = {
  id: '3f6c2a9be0d14788',
  frontend: '10.96.0.10:80/tcp',
  family: 'ipv4',
  services: ['shop/web'],
  source: { class: 'outside', address: '198.51.100.7' },
  observed: 'dnat 10.244.1.5:8080',
  desired: 'drop',
  cause: 'config',
  packet: { from: '198.51.100.7', to: '10.96.0.10', port: 80, protocol: 'tcp' },
  alsoFrom: [],
  advice: '',
} as const satisfies ParityReport['differences'][number];
const ofMode = { ...difference, cause: 'mode', code: 'DIFFERS_AFFINITY' } as const;
const gap = { what: '-m u32', why: 'option --u32 is not read', cases: 1, matters: true };

function candidate(node: string, group: string, change: Partial<ParityReport> | undefined = {}): AdoptCandidate {
  const report: ParityReport = {
    node,
    observedDigest: '9'.repeat(64),
    version: '90f4c1d2e3a4b5c6',
    modes: { observed: ['iptables'], desired: 'nftables' },
    result: 'equivalent',
    coverage: { frontends: 1, sources: 1, cases: 1, notCovered: [] },
    differences: [],
    ...change,
  };
  return { node, group, report };
}

const plan = planAdoption([
  candidate('a-2', 'zone-a'),
  candidate('a-1', 'zone-a', { differences: [ofMode] }),
  candidate('a-3', 'zone-a'),
  candidate('b-1', 'zone-b', { differences: [ofMode] }),
  candidate('b-2', 'zone-b', { result: 'different', differences: [difference, ofMode] }),
  candidate('c-1', 'zone-c', {
    result: 'incomplete',
    coverage: { frontends: 1, sources: 1, cases: 1, notCovered: [gap] },
  }),
  { node: 'c-2', group: 'zone-c', report: undefined },
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
    { node: 'c-1', why: 'incomplete: -m u32 (option --u32 is not read)' },
    { node: 'c-2', why: 'no report: it was not compared' },
  ]);
});

test('the waves are a file that `sluice release --wave` reads, with blocked nodes last', () => {
  const specs = waveSpecsOf(plan);
  expect(readWaveSpecs('waves.yaml', printWaveSpecs(specs))).toEqual(specs);
  expect(specs.at(-1)).toEqual({ name: 'blocked', nodes: ['b-2', 'c-1', 'c-2'] });
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
