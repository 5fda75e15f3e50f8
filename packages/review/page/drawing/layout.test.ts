import { describe, expect, test } from 'vitest';
import type { PageEndpoint, PageNode, PageService } from '../../src/emit/report/data.ts';
import { shortened } from './block.ts';
import { blocksIn, layoutBlock, shareNote, stack } from './layout.ts';

const nodes: readonly PageNode[] = Array.from({ length: 6 }, (_, at) => ({
  name: `n${at}`,
  zone: at < 3 ? 'a' : 'b',
  fate: 'same',
}));

function service(endpoints: readonly PageEndpoint[], frontends = 2): PageService {
  return {
    name: 'shop/web',
    fate: 'changed',
    severity: 'opens',
    frontends: Array.from({ length: frontends }, (_, at) => ({
      kind: 'node-port',
      text: `3000${at}/TCP`,
      fate: 'same',
    })),
    endpoints,
    effects: [],
    facts: [],
  };
}

const endpoint = (at: number, before?: number, after?: number): PageEndpoint => ({
  text: `10.0.${at}.1:80`,
  port: '80/TCP',
  at: at % nodes.length,
  fate: before === undefined ? 'added' : after === undefined ? 'removed' : 'same',
  ...(before === undefined ? {} : { before }),
  ...(after === undefined ? {} : { after }),
});

describe('a block', () => {
  const block = layoutBlock(service([endpoint(0, 0.5), endpoint(1, 0.5, 0.25), endpoint(4, undefined, 0.75)]), nodes);

  test('has a box for each frontend, the Service, each endpoint, its nodes and zones', () => {
    const count = Map.groupBy(block.boxes, ({ column }) => column);
    expect(Object.fromEntries([...count].map(([column, boxes]) => [column, boxes.length]))).toEqual({
      frontend: 2,
      service: 1,
      endpoint: 3,
      node: 3,
      zone: 2,
    });
  });

  test('has what leaves first, then what comes', () => {
    expect(block.boxes.filter(({ column }) => column === 'endpoint').map(({ fate }) => fate)).toEqual([
      'removed',
      'added',
      'same',
    ]);
  });

  test('has bands as high as shares, the same on both sides of an endpoint', () => {
    const heights = (from: string): readonly number[] =>
      block.bands.filter((band) => band.from === from).map(({ height }) => height);
    const [leaves, comes, stays] = heights('service') as [number, number, number];
    expect(comes / stays).toBeCloseTo(3);
    expect(leaves / stays).toBeCloseTo(2);
    expect(new Set(heights('endpoint'))).toEqual(new Set(heights('service')));
  });

  test('keeps boxes of a column apart, and inside of its height', () => {
    for (const column of ['frontend', 'endpoint', 'node', 'zone']) {
      const boxes = block.boxes.filter((box) => box.column === column).toSorted((a, b) => a.top - b.top);
      for (const [at, { top, height }] of boxes.entries()) {
        expect(top).toBeGreaterThanOrEqual(boxes[at - 1] ? boxes[at - 1]!.top + boxes[at - 1]!.height : 0);
        expect(top + height).toBeLessThanOrEqual(block.height + 0.001);
      }
    }
  });

  test('bands stay within the boxes that they join', () => {
    const owner = block.boxes.find(({ column }) => column === 'service')!;
    for (const { from, tops, height } of block.bands) {
      const at = from === 'frontend' ? tops[1] : from === 'service' ? tops[0] : undefined;
      if (at === undefined) continue;
      expect(at).toBeGreaterThanOrEqual(owner.top);
      expect(at + height).toBeLessThanOrEqual(owner.top + owner.height);
    }
  });
});

test('of a thousand endpoints all that change are drawn before those that stay, which are counted', () => {
  const many = Array.from({ length: 1000 }, (_, at) => endpoint(at, 0.001, at === 999 ? undefined : 0.001));
  const boxes = layoutBlock(service(many), nodes).boxes.filter(({ column }) => column === 'endpoint');
  expect(boxes[0]?.fate).toBe('removed');
  expect(boxes.at(-1)?.text).toBe('and 940 more that stay');
});

test('a Service without frontends and endpoints has a box', () => {
  const { boxes, bands, height } = layoutBlock(service([], 0), nodes);
  expect([boxes.length, bands.length, height > 0]).toEqual([1, 0, true]);
});

test('the blocks in sight are those that meet the window', () => {
  const heights = [100, 50, 200, 10];
  const { tops, height } = stack(heights, 10);
  expect(tops).toEqual([0, 110, 170, 380]);
  expect(height).toBe(390);
  for (let from = -20; from < 420; from += 7) {
    const to = from + 60;
    const expected = tops.flatMap((top, at) => (top + heights[at]! >= from && top <= to ? [at] : []));
    const [first, end] = blocksIn(tops, heights, from, to);
    expect(Array.from({ length: end - first }, (_, at) => first + at)).toEqual(expected);
  }
});

test.each([
  [{ before: 0.5, after: 0.5 }, '50 %'],
  [{ before: 1 / 3, after: 0.5 }, '33 → 50 %'],
  [{ before: 0.25 }, '25 %'],
  [{ after: 0.0123 }, '1.2 %'],
])('%j is written %s', (shares, text) => {
  expect(shareNote({ ...endpoint(0), ...shares })).toBe(text);
});

test('a long name keeps its end, where names of one cluster differ', () => {
  expect(shortened('recommendations/frontend-canary-7', 20)).toBe('recommen…nd-canary-7');
  expect(shortened('shop/web', 20)).toBe('shop/web');
});
