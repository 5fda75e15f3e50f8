import { printGuard } from '@sluice/bundle';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { endpoint, inFamily, leaving, portWith } from '../compile/sample.fixture.ts';
import type { Endpoint } from '../model/model.ts';
import { type Variant, selectForFleet } from './fleet.ts';
import { fleetOf } from './guards.ts';
import { selectEndpoints } from './select.fixture.ts';
import type { NodeView } from './select.ts';

const three: readonly NodeView[] = [
  { name: 'node-1', zone: 'a' },
  { name: 'node-2', zone: 'a' },
  { name: 'node-3', zone: 'b' },
];
const at = (number: number, rest: Partial<Endpoint> = {}): Endpoint => endpoint(`10.244.0.${number}:80`, rest);
const zones = (...hintZones: string[]): Partial<Endpoint> => ({ hintZones });
const nodes = (...hintNodes: string[]): Partial<Endpoint> => ({ hintNodes });

/** `@zone=a 1 2`: a guard and the endpoints behind it. */
function printVariants(variants: readonly Variant[]): string[] {
  return variants.map(({ guard, endpoints }) =>
    [...(guard ? [printGuard(guard)] : []), ...endpoints.map((one) => one.address.split('.')[3])].join(' '),
  );
}

test.each<[string, readonly NodeView[], readonly Endpoint[], readonly string[]]>([
  ['no hints: no guard', three, [at(1), at(2)], ['1 2']],
  ['nothing usable: no list', three, [at(1, { ready: false })], []],
  ['one without a hint: no guard', three, [at(1, zones('a')), at(2)], ['1 2']],
  [
    'a list per zone and one for elsewhere',
    three,
    [at(1, zones('a')), at(2, zones('b'))],
    ['@zone=a 1', '@zone=b 2', '@zone!=a,b 1 2'],
  ],
  [
    'zones with the same list share it',
    three,
    [at(1, zones('a', 'b')), at(2, zones('c'))],
    ['@zone=a,b 1', '@zone=c 2', '@zone!=a,b,c 1 2'],
  ],
  [
    'a zone that has everything is elsewhere',
    three,
    [at(1, zones('a', 'b')), at(2, zones('b'))],
    ['@zone=a 1', '@zone!=a 1 2'],
  ],
  ['hints that narrow nothing: no guard', three, [at(1, zones('b', 'a')), at(2, zones('a', 'b'))], ['1 2']],
  ['zones need no nodes', [], [at(1, zones('a')), at(2, zones('b'))], ['@zone=a 1', '@zone=b 2', '@zone!=a,b 1 2']],
  ['a node and the others', three, [at(1, nodes('node-1')), at(2, nodes('node-1'))], ['1 2']],
  [
    'each node its own',
    three,
    [at(1, nodes('node-1')), at(2, nodes('node-2')), at(3, nodes('node-3'))],
    ['@node=node-1 1', '@node=node-2 2', '@node=node-3 3'],
  ],
  [
    'the others by the shorter list of names',
    three,
    [at(1, nodes('node-2')), at(2, nodes('elsewhere'))],
    ['@node!=node-2 1 2', '@node=node-2 1'],
  ],
  [
    'nodes before zones: the rest of a zone by name',
    three,
    [
      at(1, { ...nodes('node-1'), ...zones('a') }),
      at(2, { ...nodes('node-9'), ...zones('a') }),
      at(3, { ...nodes('node-9'), ...zones('b') }),
    ],
    ['@node=node-1 1', '@node=node-2 1 2', '@zone=b 3'],
  ],
  ['no node is known: the list without hints', [], [at(1, nodes('node-1')), at(2, nodes('node-2'))], ['1 2']],
])('cluster lists, %s', (_title, fleet, endpoints, expected) => {
  const here = inFamily({ endpoints });
  expect(printVariants(selectForFleet(portWith({}), here, fleetOf(fleet)).cluster)).toEqual(expected);
});

test('local lists are in order of nodes, only for nodes with a usable endpoint', () => {
  const endpoints = [
    at(1, { nodeName: 'node-2' }),
    at(2, { nodeName: 'node-10' }),
    at(3, { nodeName: 'node-10', ...leaving }),
    at(4, { nodeName: 'node-3', ready: false }),
    at(5, { nodeName: 'node-4', ...leaving }),
    at(6),
  ];
  const port = portWith({}, { internalTrafficPolicy: 'Local' });
  expect(printVariants(selectForFleet(port, inFamily({ endpoints }), fleetOf(three)).local)).toEqual([
    '@node=node-10 2',
    '@node=node-2 1',
    '@node=node-4 5',
  ]);
});

test('splits names over several guards if they do not fit into a line', () => {
  const many = Array.from({ length: 4_000 }, (_, n) => ({ name: `node-${String(n).padStart(40, '0')}` }));
  const names = many.map((node) => node.name);
  const endpoints = [at(1, nodes(...names.slice(0, 2_000))), at(2, nodes(...names.slice(2_000)))];
  const { cluster } = selectForFleet(portWith({}), inFamily({ endpoints }), fleetOf(many));
  expect(cluster.length).toBeGreaterThan(2);
  for (const { guard } of cluster) expect(printGuard(guard!).length).toBeLessThan(64_000);
  expect(cluster.flatMap(({ guard }) => (guard?.kind === 'node' ? guard.values : [])).toSorted()).toEqual(names);
});

test('uses node names if the zones do not fit into one guard', () => {
  const long = (n: number): string => `zone-${String(n).padStart(55, '0')}`;
  const many = Array.from({ length: 2_400 }, (_, n) => ({ name: `node-${n}`, zone: long(n % 1_200) }));
  const endpoints = Array.from({ length: 1_200 }, (_, n) => at(n + 1, zones(long(n))));
  const { cluster } = selectForFleet(portWith({}), inFamily({ endpoints }), fleetOf(many));
  expect(cluster).toHaveLength(1_200);
  for (const { guard, endpoints: held } of cluster) {
    expect(held).toHaveLength(1);
    expect(printGuard(guard!)).toBe(`@zone=${held[0]!.hintZones[0]}`);
  }
});

/** Whether a list holds on a node, told from the guard alone as a reader of the format does. */
function holds({ guard }: Variant, node: NodeView): boolean {
  if (!guard) return true;
  if (guard.kind === 'zone') return (node.zone !== undefined && guard.values.includes(node.zone)) !== guard.negated;
  if (guard.kind === 'node') return guard.values.includes(node.name) !== guard.negated;
  throw new Error(`no list has the guard ${printGuard(guard)}`);
}

const zoneNames = ['a', 'b', 'c'] as const;
const nodeNames = Array.from({ length: 7 }, (_, n) => `node-${n}`);
const someNodes = fc
  .tuple(
    ...nodeNames.map((name) => fc.record({ name: fc.constant(name), zone: fc.constantFrom(...zoneNames, undefined) })),
  )
  .map((list) => list.map(({ name, zone }): NodeView => (zone === undefined ? { name } : { name, zone })));
const condition = fc.oneof(
  { weight: 4, arbitrary: fc.constant({}) },
  fc.record({ ready: fc.boolean(), serving: fc.boolean(), terminating: fc.boolean() }),
);
const hints = (places: readonly string[]): fc.Arbitrary<string[]> =>
  fc.oneof(
    { weight: 1, arbitrary: fc.constant<string[]>([]) },
    { weight: 5, arbitrary: fc.subarray([...places], { minLength: 1, maxLength: 2 }) },
  );
/** Hints of a kind are there for nearly all endpoints or for none, as the EndpointSlice controller writes them. */
const someEndpoints = fc.tuple(fc.boolean(), fc.boolean(), fc.nat({ max: 6 })).chain(([byZone, byNode, count]) =>
  fc.tuple(
    ...Array.from({ length: count }, (_, n) =>
      fc
        .tuple(condition, fc.constantFrom(...nodeNames, undefined), hints(zoneNames), hints(nodeNames))
        .map(([state, nodeName, hintZones, hintNodes]) =>
          at(n + 1, {
            ...state,
            ...(nodeName === undefined ? {} : { nodeName }),
            ...(byZone ? { hintZones } : {}),
            ...(byNode ? { hintNodes } : {}),
          }),
        ),
    ),
  ),
);
const somePort = fc
  .record({
    nodePort: fc.constantFrom(0, 30_080),
    internalTrafficPolicy: fc.constantFrom('Cluster' as const, 'Local' as const),
    externalTrafficPolicy: fc.constantFrom('Cluster' as const, 'Local' as const),
  })
  .map((rest) => portWith({}, rest));

test('on every node the guards select the endpoints of selectEndpoints', () => {
  fc.assert(
    fc.property(somePort, someEndpoints, someNodes, (port, endpoints, fleet) => {
      const here = inFamily({ endpoints });
      const selected = selectForFleet(port, here, fleetOf(fleet));
      for (const node of fleet) {
        const wanted = selectEndpoints(port, here, node);
        const cluster = selected.cluster.filter((variant) => holds(variant, node));
        const local = selected.local.filter((variant) => holds(variant, node));
        expect(cluster.length).toBeLessThanOrEqual(1);
        expect(local.length).toBeLessThanOrEqual(1);
        expect(cluster[0]?.endpoints ?? []).toEqual(wanted.cluster);
        expect(local[0]?.endpoints ?? []).toEqual(wanted.local);
        expect(selected.hasAny).toBe(wanted.hasAny);
        expect(selected.all).toEqual(expect.arrayContaining([...wanted.all]));
      }
    }),
    runs(3_000),
  );
});

test('the order of the nodes changes nothing', () => {
  fc.assert(
    fc.property(someEndpoints, someNodes, (endpoints, fleet) => {
      const here = inFamily({ endpoints });
      const selected = selectForFleet(portWith({}), here, fleetOf(fleet));
      expect(selectForFleet(portWith({}), here, fleetOf(fleet.toReversed()))).toEqual(selected);
    }),
    runs(500),
  );
});
