import { expect, test } from 'vitest';
import { sampleBundle } from '../what-if/cluster.fixture.ts';
import { whatIf } from '../what-if/what-if.ts';
import { reportedFailures } from '../commands/report/report.ts';

test('a report shows failures that take something, with ports, shares and rules as texts', () => {
  const nodes = [
    { number: 1, zone: 'a' },
    { number: 2, zone: 'a' },
    { number: 3, zone: 'a' },
  ];
  const service = (name: string, last: number, on: readonly number[]) => ({
    name,
    clusterIP: `10.96.0.${last}`,
    nodePort: 30_000 + last,
    endpoints: on.map((node) => ({ address: `10.244.${node}.${last}`, node })),
  });
  const files = sampleBundle(nodes, [service('alone', 10, [1]), service('pair', 11, [1, 2])]);
  const asked = { without: [], endpoints: false, sharePercent: 80, settings: {}, today: '2026-11-21' } as const;
  const judged = whatIf(files, asked);
  const pair = (address: string): string => `${address}:8080 of shop/pair:http 80/TCP: 50 % → 100 %`;
  expect(reportedFailures(judged)).toEqual([
    {
      kind: 'zone',
      name: 'a',
      lost: ['shop/alone:http 80/TCP', 'shop/pair:http 80/TCP'],
      over: [],
      rules: ['LAST_ENDPOINT (2)'],
    },
    {
      kind: 'node',
      name: 'node-1',
      lost: ['shop/alone:http 80/TCP'],
      over: [pair('10.244.2.11')],
      rules: ['LAST_ENDPOINT (1)', 'SINGLE_NODE (1)'],
    },
    { kind: 'node', name: 'node-2', lost: [], over: [pair('10.244.1.11')], rules: ['SINGLE_NODE (1)'] },
  ]);
});
