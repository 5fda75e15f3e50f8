import { expect, test } from 'vitest';
import { limits } from '../../limits.ts';
import { DeletedCounts, deletedCounts, mostConnections, readCounts } from './counts.ts';

test('reads the counters of a listing', () => {
  const listing = (elements: string): string =>
    `table inet sluice {\n\tmap m {\n\t\tcounter\n\t\telements = { ${elements} }\n\t}\n}\n`;
  expect(
    readCounts(
      'tcp4',
      listing(
        '10.96.0.10 . 80 . 0 counter packets 3 bytes 180 : 10.244.1.5 . 8080,\n\t\t\t     0.0.0.0 . 30080 . 65536 counter packets 0 bytes 0 : 10.244.1.6 . 8080',
      ),
    ),
  ).toEqual([
    { key: '10.96.0.10 . 80 . 0', frontend: '10.96.0.10 . tcp . 80', endpoint: '10.244.1.5 . 8080', connections: 3 },
    {
      key: '0.0.0.0 . 30080 . 65536',
      frontend: '0.0.0.0 . tcp . 30080',
      endpoint: '10.244.1.6 . 8080',
      connections: 0,
    },
  ]);
  expect(
    readCounts('id6', listing('fd00::1 . 17 . 53 . 3f2a:91c0 counter packets 2 bytes 9 : ::0.2.0.1 . 53')),
  ).toEqual([
    { key: 'fd00::1 . 17 . 53 . 3f2a:91c0', frontend: 'fd00::1 . udp . 53', endpoint: '::2:1 . 53', connections: 2 },
  ]);
});

test('finds the elements whose counts end with a transaction', () => {
  const text =
    'delete element inet sluice svc4 { 10.96.0.10 . 6 . 80 }\ndelete element inet sluice tcp4 { 10.96.0.10 . 80 . 0, 10.96.0.10 . 80 . 1 }\nadd element inet sluice tcp4 { 10.96.0.10 . 80 . 1 : 10.244.1.5 . 8080 }\n';
  expect(deletedCounts(text)).toEqual(new Map([['tcp4', new Set(['10.96.0.10 . 80 . 0', '10.96.0.10 . 80 . 1'])]]));
  expect(deletedCounts('flush set inet sluice trial4\n').valueOf()).toEqual(new Map());
  expect(deletedCounts('delete table inet sluice\ntable inet sluice {\n}\n')).toBe('all');
});

const count = (endpoint: string, connections: number, frontend = 'f') => ({ frontend, endpoint, connections });

test('adds what deleted elements counted, within bounds', () => {
  const deleted = new DeletedCounts();
  deleted.add([count('a', 3), count('b', 0)]);
  deleted.add([count('a', 2)]);
  expect(deleted.with([count('a', 1), count('a', 1), count('c', 4)])).toEqual([count('a', 7), count('c', 4)]);
  deleted.add(Array.from({ length: limits.deletedCountsKept }, (_, at) => count(`x${at}`, 1)));
  expect(deleted.with([])).toHaveLength(limits.deletedCountsKept);
});

test('tells the frontends and endpoints with most connections', () => {
  const counts = Array.from({ length: 200 }, (_, at) => count('a', at, `f${at}`));
  const most = mostConnections([...counts, count('b', 500, 'f3')]);
  expect(most).toHaveLength(limits.countedFrontendsShown);
  expect(most.slice(0, 2)).toEqual([
    {
      frontend: 'f3',
      connections: 503,
      endpoints: [
        { endpoint: 'b', connections: 500 },
        { endpoint: 'a', connections: 3 },
      ],
    },
    { frontend: 'f199', connections: 199, endpoints: [{ endpoint: 'a', connections: 199 }] },
  ]);
});
