import { expect, test } from 'vitest';
import { fixAllocations } from './fix.ts';
import type { Allocation } from './allocation.ts';

const config = { serviceCIDRs: { ipv4: ['10.96.0.0/24'] }, nodePortRange: { from: 30000, to: 30200 } };
const held = (name: string, more: Partial<Allocation> = {}): Allocation => ({
  namespace: 'shop',
  name,
  file: `allocations/shop/${name}.yaml`,
  clusterIPs: ['10.96.0.9'],
  nodePorts: {},
  ...more,
});
const fix = (current: readonly Allocation[], base: readonly Allocation[]) => fixAllocations(current, base, config);

test('replaces the number of the Service that the base branch does not have', () => {
  const { moved, moves, problems } = fix([held('a'), held('b')], [held('b')]);
  expect(problems).toEqual([]);
  expect(moves).toMatchObject([{ service: 'shop/a', from: '10.96.0.9' }]);
  expect(moved).toMatchObject([{ name: 'a', file: 'allocations/shop/a.yaml', clusterIPs: [moves[0]?.to] }]);
});

test('replaces the number of a Service that has another one in the base branch', () => {
  expect(fix([held('a'), held('b')], [held('a', { clusterIPs: ['10.96.0.8'] }), held('b')]).moves).toMatchObject([
    { service: 'shop/a' },
  ]);
});

test('keeps the number of the first Service by name if the base branch has neither', () => {
  expect(fix([held('b'), held('a')], []).moves).toMatchObject([{ service: 'shop/b' }]);
});

test('replaces nothing and names both Services if the base branch has both', () => {
  const { moved, problems } = fix([held('a'), held('b')], [held('a'), held('b')]);
  expect(moved).toEqual([]);
  expect(problems).toMatchObject([{ code: 'ALLOCATION_CONFLICT' }]);
  expect(problems[0]?.message).toContain('allocations/shop/a.yaml and allocations/shop/b.yaml');
});

test('replaces a number of several ports in all of them, and nothing else', () => {
  const dns = held('dns', {
    clusterIPs: ['10.96.0.10'],
    nodePorts: { 'dns/UDP': 30001, 'dns-tcp/TCP': 30001, 'metrics/TCP': 30002 },
  });
  const { moved } = fix([dns, held('a', { healthCheckNodePort: 30001 })], [held('a', { healthCheckNodePort: 30001 })]);
  const ports = moved[0]?.nodePorts ?? {};
  expect(ports['dns/UDP']).toBe(ports['dns-tcp/TCP']);
  expect(ports['dns/UDP']).not.toBe(30001);
  expect(moved).toMatchObject([{ name: 'dns', clusterIPs: ['10.96.0.10'], nodePorts: { 'metrics/TCP': 30002 } }]);
});

test('a second run changes nothing', () => {
  const current = ['a', 'b', 'c', 'd'].map((name) => held(name, { healthCheckNodePort: 30007 }));
  const base = [held('c', { healthCheckNodePort: 30007 })];
  const { moved } = fix(current, base);
  const after = current.map((allocation) => moved.find(({ name }) => name === allocation.name) ?? allocation);
  expect(moved.map(({ name }) => name)).toEqual(['a', 'b', 'd']);
  expect(fix(after, base)).toEqual({ moved: [], moves: [], problems: [] });
});

test('does not choose a number that only the base branch has', () => {
  const [first] = fix([held('a'), held('b')], [held('b')]).moves;
  const base = [held('b'), held('gone', { clusterIPs: [String(first?.to)] })];
  expect(fix([held('a'), held('b')], base).moves[0]?.to).not.toBe(first?.to);
});

test('an exhausted range leaves the file unchanged', () => {
  const full = { serviceCIDRs: { ipv4: ['10.96.0.8/30'] }, nodePortRange: { from: 30000, to: 30000 } };
  const [a, b] = [held('a', { clusterIPs: ['10.96.0.10'] }), held('b', { clusterIPs: ['10.96.0.10'] })];
  expect(fixAllocations([a, b], [a], full)).toMatchObject({
    moved: [],
    problems: [{ code: 'ALLOCATION_EXHAUSTED', object: 'Service shop/b' }],
  });
});
