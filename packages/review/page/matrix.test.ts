import { expect, test } from 'vitest';
import type { PageNode, PageService } from '../src/emit/report/data.ts';
import { elsewhere, matrixOf } from './matrix.ts';

const nodes: readonly PageNode[] = [
  { name: 'n1', zone: 'a', fate: 'same' },
  { name: 'n2', zone: 'a', fate: 'same' },
  { name: 'n3', zone: 'b', fate: 'same' },
];
const plain = { fate: 'same', frontends: [], endpoints: [], effects: [], facts: [] } as const;
const web: PageService = {
  ...plain,
  name: 'shop/web',
  fate: 'changed',
  severity: 'moves',
  frontends: [
    { kind: 'cluster', text: '10.96.0.1:80', fate: 'same' },
    { kind: 'node-port', text: '30080/TCP', fate: 'added' },
    { kind: 'external', text: '203.0.113.1:80', fate: 'removed' },
  ],
  endpoints: [
    { text: '10.0.1.1:80', port: '80/TCP', at: 0, fate: 'removed', before: 0.5 },
    { text: '10.0.2.1:80', port: '80/TCP', at: 1, fate: 'added', after: 0.5 },
    { text: '10.0.3.1:80', port: '80/TCP', at: 2, fate: 'same', before: 0.5, after: 0.5 },
  ],
};
const dns: PageService = {
  ...plain,
  name: 'kube-system/dns',
  endpoints: [{ text: '10.0.3.2:53', port: '53/UDP', at: 2, fate: 'same', before: 1, after: 1 }],
};
const ledger: PageService = { ...plain, name: 'payments/ledger', severity: 'last-endpoint' };
const alien: PageService = {
  ...plain,
  name: 'shop/alien',
  endpoints: [{ text: '192.0.2.9:80', port: '80/TCP', fate: 'same', before: 1, after: 1 }],
};

test('namespaces by zones: what changes first, the worst on top', () => {
  const { rows, columns, loadMax } = matrixOf([dns, web, ledger], nodes);
  expect(columns).toEqual([
    { name: 'a', endpoints: 1, share: 0.25 },
    { name: 'b', endpoints: 2, share: 0.75 },
  ]);
  expect(rows.map(({ name, services, outside, severity }) => [name, services, outside, severity])).toEqual([
    ['payments', 1, 0, 'last-endpoint'],
    ['shop', 1, 1, 'moves'],
    ['kube-system', 1, 0, undefined],
  ]);
  expect(rows[1]?.cells).toEqual([
    { endpoints: 1, come: 1, leave: 1, load: 0.5 },
    { endpoints: 1, come: 0, leave: 0, load: 0.5 },
  ]);
  expect(loadMax).toBe(1);
});

test('a namespace has its Services, a zone its nodes', () => {
  const { rows, columns } = matrixOf([dns, web, alien], nodes, { namespace: 'shop', zone: 'a' });
  expect(rows.map(({ name }) => name)).toEqual(['shop/web', 'shop/alien']);
  expect(columns.map(({ name, endpoints }) => [name, endpoints])).toEqual([
    ['n1', 0],
    ['n2', 1],
  ]);
});

test('all nodes can stand in place of zones', () => {
  const { columns } = matrixOf([dns, web, alien], nodes, { byNode: true });
  expect(columns.map(({ name }) => name)).toEqual([...nodes.map(({ name }) => name), 'no node']);
});

test('endpoints without a node have a column of their own, and only where there are some', () => {
  expect(matrixOf([web], nodes).columns.map(({ name }) => name)).toEqual(['a', 'b']);
  expect(matrixOf([web, alien], nodes).columns.at(-1)).toEqual({ name: elsewhere, endpoints: 1, share: 0.5 });
  expect(matrixOf([web, alien], nodes, { zone: elsewhere }).columns).toEqual([
    { name: elsewhere, endpoints: 1, share: 1 },
  ]);
});
