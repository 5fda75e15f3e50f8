// @module-tag quick
import { expect, test } from 'vitest';
import type { PageFlow } from './data.ts';
import { shownFlows } from './flow-data.ts';

/** A flow with this many endpoints. */
const flowTo = (endpoints: number): PageFlow => ({
  services: 'shop/web',
  to: '10.96.0.10:80/tcp',
  from: 'pods here',
  on: '1 node',
  what: '',
  packet: '',
  turn: 'moves',
  sources: [],
  branches: Array.from({ length: endpoints }, (_, at) => ({
    to: `10.244.${at >> 8}.${at & 255}:8080`,
    before: 1 / endpoints,
    masked: [false, false],
  })),
  old: '',
  new: '',
});

test.each([
  ['few flows', 3, 2, 3],
  ['many flows', 1_200, 2, 1_000],
])('%s', (_title, count, endpoints, shown) => {
  const flows = Array.from({ length: count }, () => flowTo(endpoints));
  expect(shownFlows(flows).length).toBe(shown);
});

test('flows with many endpoints are as many as fit 600 kB', () => {
  const flows = Array.from({ length: 100 }, () => flowTo(1_000));
  const { length } = shownFlows(flows);
  const sizeOf = (count: number): number => JSON.stringify(flows.slice(0, count)).length;
  expect(sizeOf(length)).toBeLessThan(600_100);
  expect(sizeOf(length + 1)).toBeGreaterThan(600_000);
});
