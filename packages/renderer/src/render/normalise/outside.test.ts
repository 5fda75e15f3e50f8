import { expect, test } from 'vitest';
import { config, lines, normalised, service, slice } from '../builders.fixture.ts';

const input = [
  service('web', { clusterIP: '10.97.0.2', type: 'NodePort', ports: [{ name: 'http', port: 80, nodePort: 29_999 }] }),
  slice('web'),
  service('fine', { clusterIP: '10.96.0.2', type: 'NodePort', ports: [{ name: 'http', port: 80, nodePort: 30_000 }] }),
  slice('fine'),
];

test('warns of an address and a node port outside of the ranges of sluice.yaml', () => {
  const named = config({ named: { serviceCIDRs: true, nodePortRange: true } });
  expect(lines(normalised(input, { config: named }).problems)).toEqual([
    'warning RANGE_OUTSIDE Service web#spec.clusterIP',
    'warning RANGE_OUTSIDE Service web#spec.ports.0.nodePort',
  ]);
});

test('does not check default ranges', () => {
  expect(normalised(input, { config: config({}) }).problems).toEqual([]);
});
