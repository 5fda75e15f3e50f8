import { expect, test } from 'vitest';
import type { TableName } from '../family.ts';
import { cart, withoutEndpoints, withoutLocal } from '../link/cart.fixture.ts';
import { linkFlat } from '../link/flat.ts';
import { emptyProgram, type ResolvedRules, tableNames } from '../link/program.ts';
import { settledProgram } from '../link/tree/flatten.ts';
import { linkTree, sectionsOf } from '../link/tree/link.ts';
import { frontendOf, frontendOfLinked, readLinked } from './of-rule.ts';
import { planeOf, serviceChanges } from './planes.ts';
import type { Comparison, ForwardingState } from './services.ts';

type Layout = 'flat' | 'tree';
const layouts = ['flat', 'tree'] as const satisfies readonly Layout[];

const stateOf = (layout: Layout, rules: ResolvedRules): ForwardingState => ({
  families: {
    ipv4:
      layout === 'flat'
        ? linkFlat(rules, 'ipv4').program
        : settledProgram(linkTree(sectionsOf(rules), { family: 'ipv4' }).program),
  },
});

const keyIn = (layout: Layout, kind: string): string =>
  `ipv4 ${layout === 'flat' ? 'KUBE' : 'SLU'}-${kind}-I5LIAMPLWKMBJ54B`;

function compared(layout: Layout, before: ResolvedRules, after: ResolvedRules): Comparison<ForwardingState> {
  const [from, to] = [stateOf(layout, before), stateOf(layout, after)];
  return planeOf(from).compare(from, to);
}

const edited = (table: TableName, from: RegExp | string, to: string): ResolvedRules =>
  cart({ [table]: (text: string) => text.replaceAll(from, to) });

/** The cart with its third endpoint at another address. */
const moved = cart({
  nat: (text) => text.replaceAll('10.244.3.3', '10.244.3.4').replaceAll('ZNEKD56SUVBWUDHI', 'ZNEKD56SUVBWUDHJ'),
});

test.each(layouts)('reads the endpoints of a Service, of all nodes and of this one, in layout %s', (layout) => {
  const state = stateOf(layout, cart());
  const services = planeOf(state).read(state);
  const [all, here] = [services.service(keyIn(layout, 'SVC')), services.service(keyIn(layout, 'SVL'))];
  expect([services.count, services.has(keyIn(layout, 'EXT'))]).toEqual([2, false]);
  expect([...(all?.endpoints.keys() ?? [])]).toEqual(['10.244.1.7:8080', '10.244.2.9:8080', '10.244.3.3:8080']);
  expect([...(here?.endpoints.keys() ?? [])]).toEqual(['10.244.2.9:8080']);
  expect(here?.siblingKey).toBe(all?.key);
  expect(all?.affinityOrder).toHaveLength(3);
  expect(new Set([...(all?.endpoints.values() ?? [])].map(({ form }) => form)).size).toBe(1);
  expect([...services.addresses()].toSorted()).toEqual(['10.244.1.7', '10.244.2.9', '10.244.3.3']);
});

test.each(layouts)('names frontends and what serves them, in layout %s', (layout) => {
  const state = stateOf(layout, cart());
  const none: ForwardingState = { families: {} };
  const services = planeOf(state).read(state);
  const named = [...services.frontends('ipv4', false)].map(
    ({ address, port, service }) => `${service} ${address} ${port}`,
  );
  expect(named.toSorted()).toEqual([
    'shop/cart:http 10.96.7.1 80',
    'shop/cart:http 192.0.2.50 80',
    'shop/cart:http 203.0.113.9 80',
    'shop/cart:http undefined 30080',
  ]);
  expect([...services.served('tcp', none)]).toHaveLength(12);
  expect([...services.served('udp', none)]).toEqual([]);
  expect([...services.served('tcp', state)]).toEqual([]);
  const empty = stateOf(layout, withoutEndpoints);
  expect([...planeOf(empty).read(empty).frontends('ipv4', false)]).toEqual([]);
  expect([...planeOf(empty).read(empty).frontends('ipv4', true)]).toHaveLength(3);
});

test.each(layouts)('another address of an endpoint fits, and gives the other state, in layout %s', (layout) => {
  const [from, to] = [stateOf(layout, cart()), stateOf(layout, moved)];
  const comparison = planeOf(from).compare(from, to);
  expect(comparison.changed.map(({ name, fits }) => [name, fits])).toEqual([['shop/cart:http', true]]);
  expect([comparison.added, comparison.removed, comparison.isRestSame]).toEqual([[], [], true]);
  expect(comparison.withEndpoints(comparison.changed).families.ipv4?.nat).toBe(to.families.ipv4?.nat);
  expect(comparison.withEndpoints([])).toBe(from);
});

test.each(
  layouts.flatMap((layout) =>
    (
      [
        ['another time of affinity', /--seconds 600/g, '--seconds 700'],
        ['an endpoint for some clients alone', '-j KUBE-SEP-HR', '-s 10.0.0.0/8 -j KUBE-SEP-HR'],
        ['unequal shares', '0.3333333333', '0.5000000000'],
        ['an endpoint that does not reach itself', /-A KUBE-SEP-HR.*MASQ\n/g, ''],
        ['other sources that are masqueraded', '! -s 10.244.0.0/16', '! -s 10.0.0.0/8'],
      ] as const
    ).map(([title, from, to]) => ({ layout, title, from, to })),
  ),
)('$title: more than endpoints differ, in layout $layout', ({ layout, from, to }) => {
  const { changed, isRestSame } = compared(layout, cart(), edited('nat', from, to));
  expect(isRestSame && changed.every(({ fits }) => fits)).toBe(false);
});

test.each(layouts)('a change beside endpoints is none of the rest, in layout %s', (layout) => {
  const { changed, isRestSame, frontends } = compared(layout, cart(), edited('nat', '192.0.2.50', '192.0.2.51'));
  expect([changed, isRestSame, frontends]).toEqual([[], false, undefined]);
});

test.each(layouts.flatMap((layout) => tableNames.map((table) => ({ layout, table }))))(
  'another order of jumps of $table is a change beside endpoints, in layout $layout',
  ({ layout, table }) => {
    const [from, to] = [stateOf(layout, cart()), stateOf(layout, moved)];
    const program = to.families.ipv4 ?? emptyProgram;
    const jumps = program[table].jumps.toReversed();
    const turned = { families: { ipv4: { ...program, [table]: { ...program[table], jumps } } } };
    const { isRestSame, frontends } = planeOf(from).compare<ForwardingState>(from, turned);
    expect([jumps.length > 1, isRestSame, frontends]).toEqual([true, false, undefined]);
  },
);

test.each(layouts)('tells frontends that are rejected from those that are served, in layout %s', (layout) => {
  const { removed, frontends = [] } = compared(layout, cart(), withoutEndpoints);
  expect(removed.map(({ key }) => key).toSorted()).toEqual([keyIn(layout, 'SVC'), keyIn(layout, 'SVL')]);
  const ends = frontends.map(({ frontend, served, refused }) => [frontend, served.before, refused.after]);
  expect(ends).toContainEqual(['ipv4 tcp 10.96.7.1 80', true, true]);
  expect(ends).toContainEqual(['ipv4 tcp * 30080', true, true]);
  const local = compared(layout, cart(), withoutLocal);
  expect(local.removed.map(({ key }) => key)).toEqual([keyIn(layout, 'SVL')]);
  expect(local.frontends?.find(({ frontend }) => frontend === 'ipv4 tcp 203.0.113.9 80')).toMatchObject({
    served: { before: true, after: false },
    refused: { after: true },
  });
});

test('another layout has other Services', () => {
  const changes = serviceChanges(stateOf('flat', cart()), stateOf('tree', cart()));
  expect(changes.map(({ key, before, after }) => [key, before?.endpoints.size, after?.endpoints.size])).toEqual(
    expect.arrayContaining([
      [keyIn('flat', 'SVC'), 3, undefined],
      [keyIn('tree', 'SVC'), undefined, 3],
    ]),
  );
});

test.each([
  ['-A A -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A', 'tcp 10.96.0.1 80'],
  [
    '-A A -d 10.96.0.1/32 -p tcp -m comment --comment "a -p udp --dport 81 ! b" -m tcp --dport 80 -j A-B',
    'tcp 10.96.0.1 80',
  ],
  ['-A A -p tcp -m tcp --dport 80:81 -j KUBE-SVC-A', undefined],
  ['-A A -d fd00::/32 -p udp -m udp --dport 53 -j KUBE-SVC-A', 'udp fd00::/32 53'],
  ['-A A -p tcp -m tcp --dport 80 -j KUBE-SVC-A', 'tcp undefined 80'],
  ['-A A ! -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A', undefined],
  ['-A A -p tcp -m addrtype ! --dst-type LOCAL -m tcp --dport 80 -j KUBE-SVC-A', undefined],
  ['-A A -d 10.96.0.1/32 -p tcp -j KUBE-SVC-A', undefined],
])('the frontend of %s is %s', (text, expected) => {
  const rule = readLinked(text);
  const found = rule && frontendOf(rule);
  expect(frontendOfLinked(text)).toEqual(found);
  expect(found && `${found.protocol} ${found.address} ${found.port}`).toBe(expected);
});

test.each(layouts)('a Service of a family is compared with one of that family, in layout %s', (layout) => {
  const program = stateOf(layout, cart()).families.ipv4 ?? emptyProgram;
  const [both, one]: ForwardingState[] = [
    { families: { ipv4: program, ipv6: program } },
    { families: { ipv4: program } },
  ];
  const familyIn = (state: ForwardingState = { families: {} }) => planeOf(state).read(state).any('ipv6')?.family;
  expect([familyIn(both), familyIn(one)]).toEqual(['ipv6', undefined]);
});
