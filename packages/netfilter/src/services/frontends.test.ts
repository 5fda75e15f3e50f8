import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Layered } from '../layered.ts';
import { frontendKey, frontendLines, type NftFrontend, readFrontend, readFrontendKey } from '../nftables/frontend.ts';
import { planeOf, serviceChanges } from './planes.ts';
import type { Comparison, ForwardingState } from './services.ts';

/** A frontend without what its key says. */
type Body = Parameters<typeof frontendLines>[0];

const settings = ['table 4 address', 'pods 10.244.0.0/16', 'node 192.0.2.11'];
const cluster = '10.96.0.10 . tcp . 80';
const external = '203.0.113.9 . tcp . 80';
const nodePort = '0.0.0.0 . tcp . 30080';
const own6 = 'fd00:96::1 . udp . 53';

const [a, b, c, d] = ['10.244.1.5 . 8080', '10.244.2.7 . 8080', '10.244.3.9 . 8080', '10.244.3.9 . 9090'] as const;

const plain: Body = { isClusterIP: true, ranges: [], endpoints: [a, b], local: [] };
const near: Body = { isClusterIP: false, outside: 'local', ranges: [], endpoints: [a, b], local: [a] };

const stateOf = (frontends: Readonly<Record<string, Body>>, others = settings): ForwardingState => ({
  families: {},
  nft: {
    settings: others,
    frontends: new Map(Object.entries(frontends).map(([key, body]) => [key, frontendLines(body)])),
  },
});

const compared = (
  from: Readonly<Record<string, Body>>,
  to: Readonly<Record<string, Body>>,
): Comparison<ForwardingState> => planeOf(stateOf(from)).compare(stateOf(from), stateOf(to));

const weighted: Body = { ...plain, weights: new Map([[a, 3]]) };

const shop = { [cluster]: plain, [external]: near, [nodePort]: near };

test('each list of a frontend is a Service', () => {
  const state = stateOf(shop);
  const services = planeOf(state).read(state);
  const [all, local] = [services.service('203.0.113.9:80/TCP'), services.service('203.0.113.9:80/TCP local')];
  expect([services.count, services.has('10.96.0.10:80/TCP local'), services.has('10.96.0.10:80/UDP')]).toEqual([
    5,
    false,
    false,
  ]);
  expect([...(all?.endpoints.keys() ?? [])]).toEqual(['10.244.1.5:8080', '10.244.2.7:8080']);
  expect([...(local?.endpoints.keys() ?? [])]).toEqual(['10.244.1.5:8080']);
  expect([local?.siblingKey, all?.siblingKey]).toEqual([all?.key, local?.key]);
  expect(local).toMatchObject({ isLocalOutside: true, affinityOrder: [], frontends: ['ipv4 tcp 203.0.113.9 80'] });
  expect(services.service('0.0.0.0:30080/TCP local')?.frontends).toEqual(['ipv4 tcp * 30080']);
  expect([...services.addresses()].toSorted()).toEqual(['10.244.1.5', '10.244.2.7']);
  expect([services.any('ipv4')?.key, services.any('ipv6')]).toEqual(['10.96.0.10:80/TCP', undefined]);
});

test('session affinity is part of how a list chooses', () => {
  const state = stateOf({ [own6]: { ...plain, affinitySeconds: 600, endpoints: ['fd00:10:244::5 . 53'] } });
  const service = planeOf(state).read(state).service('[fd00:96::1]:53/UDP');
  expect(service).toMatchObject({ choice: 'affinity 600', affinityOrder: ['[fd00:10:244::5]:53'] });
  expect([...(service?.endpoints.values() ?? [])]).toMatchObject([{ remembersClients: true, form: ':53' }]);
});

test('names frontends and what serves them', () => {
  const state = stateOf({ ...shop, '10.96.0.40 . tcp . 80': { ...plain, endpoints: [], none: 'refuse' } });
  const services = planeOf(state).read(state);
  const names = (withRejected: boolean) => [...services.frontends('ipv4', withRejected)].map(({ service }) => service);
  expect(names(false)).toEqual(['10.96.0.10:80/TCP', '203.0.113.9:80/TCP', 'node port 30080/TCP']);
  expect(names(true)).toHaveLength(4);
  const served = [...services.served('tcp', { families: {} })];
  expect(served).toHaveLength(6);
  expect(served.filter(({ address }) => address === undefined)).toEqual([
    { family: 'ipv4', protocol: 'tcp', address: undefined, port: 30_080, endpoint: '10.244.1.5:8080' },
    { family: 'ipv4', protocol: 'tcp', address: undefined, port: 30_080, endpoint: '10.244.2.7:8080' },
  ]);
  expect([...services.served('udp', { families: {} })]).toEqual([]);
  expect([...services.served('tcp', state)]).toEqual([]);
});

/** What a change of one frontend is, as words. */
function wordsOf({ changed, isRestSame, frontends }: Comparison<ForwardingState>): string {
  const lists = changed.map(({ key, fits }) => `${key.endsWith(' local') ? 'local' : 'all'}${fits ? '' : ' unlike'}`);
  const rest = isRestSame ? 'rest same' : frontends ? `refused otherwise ${frontends.length}` : 'more';
  return [...lists, rest].join(', ');
}

test.each<readonly [string, Body, Body, string]>([
  ['another endpoint', plain, { ...plain, endpoints: [a, c] }, 'all, rest same'],
  ['another order of endpoints', plain, { ...plain, endpoints: [b, a] }, 'rest same'],
  ['an address that moves to this node', plain, { ...plain, here: ['10.244.1.5'] }, 'all, rest same'],
  ['an endpoint at a port that none has', plain, { ...plain, endpoints: [a, d] }, 'all unlike, rest same'],
  ['no endpoint is left', plain, { ...plain, endpoints: [], none: 'refuse' }, 'all, rest same'],
  ['the node may use none any more', plain, { ...plain, endpoints: [], none: 'drop' }, 'all, rest same'],
  ['a first endpoint', { ...plain, endpoints: [], none: 'refuse' }, plain, 'all, rest same'],
  ['a first local endpoint', { ...near, local: [], none: 'drop' }, near, 'local, rest same'],
  ['no local endpoint is left', near, { ...near, endpoints: [b], local: [], none: 'drop' }, 'all, local, rest same'],
  ['a local endpoint that the list lacks', near, { ...near, local: [a, c] }, 'local unlike, rest same'],
  ['a local endpoint that the list loses', near, { ...near, endpoints: [b, c] }, 'all, rest same'],
  [
    'a local endpoint at another port',
    { ...near, local: [], none: 'drop' },
    { ...near, endpoints: [a, b, d], local: [d] },
    'all unlike, local unlike, rest same',
  ],
  [
    'packets without a local endpoint are rejected',
    { ...near, local: [], none: 'drop' },
    { ...near, local: [], none: 'refuse' },
    'more',
  ],
  [
    'the first endpoints, but not as written',
    { ...near, endpoints: [], local: [], none: 'refuse' },
    { ...near, local: [], none: 'refuse' },
    'all unlike, more',
  ],
  ['a served frontend is refused, too', plain, { ...plain, none: 'drop' }, 'more'],
  [
    'other nodes get endpoints',
    { ...plain, endpoints: [], none: 'refuse' },
    { ...plain, endpoints: [], none: 'drop' },
    'refused otherwise 1',
  ],
  ['another policy', near, { ...near, outside: 'cluster', local: [] }, 'local unlike, more'],
  ['other source ranges', near, { ...near, ranges: ['192.0.2.0/24'] }, 'more'],
  ['another time of affinity', plain, { ...plain, affinitySeconds: 600, endpoints: [a, c] }, 'all unlike, more'],
  ['another kind of address', plain, { ...plain, isClusterIP: false }, 'more'],
  ['a scheduler', plain, { ...plain, scheduler: 'maglev 1009', endpoints: [a, c] }, 'all unlike, more'],
  [
    'another table',
    { ...plain, scheduler: 'maglev 1009' },
    { ...plain, scheduler: 'maglev 251', endpoints: [a, b] },
    'more',
  ],
  [
    'another endpoint of a table',
    { ...plain, scheduler: 'maglev 251' },
    { ...plain, scheduler: 'maglev 251', endpoints: [a, c] },
    'all, rest same',
  ],
  ['a weight', plain, { ...plain, weights: new Map([[a, 3]]) }, 'more'],
  ['another weight', weighted, { ...weighted, weights: new Map([[a, 4]]) }, 'more'],
  [
    'an endpoint with a weight that another one has',
    weighted,
    {
      ...weighted,
      endpoints: [a, b, c],
      weights: new Map([
        [a, 3],
        [c, 3],
      ]),
    },
    'all, rest same',
  ],
  [
    'an endpoint with a weight that none has',
    weighted,
    {
      ...weighted,
      endpoints: [a, b, c],
      weights: new Map([
        [a, 3],
        [c, 2],
      ]),
    },
    'all unlike, more',
  ],
  ['a first endpoint with a weight', { ...plain, endpoints: [], none: 'refuse' }, weighted, 'all, rest same'],
])('%s', (_title, before, after, expected) => {
  const other = { '10.96.0.99 . tcp . 80': plain };
  expect(wordsOf(compared({ ...other, [external]: before }, { ...other, [external]: after }))).toBe(expected);
});

test('frontends that one state has, and other settings, are more than endpoints', () => {
  const { [nodePort]: _node, ...less } = shop;
  const { added, removed, isRestSame, frontends } = compared(less, shop);
  expect([added.map(({ key }) => key), removed, isRestSame, frontends]).toEqual([
    ['0.0.0.0:30080/TCP', '0.0.0.0:30080/TCP local'],
    [],
    false,
    undefined,
  ]);
  expect(compared(shop, less).removed.map(({ before, after }) => [before?.endpoints.size, after])).toEqual([
    [2, undefined],
    [1, undefined],
  ]);
  const from = stateOf(shop);
  const to = stateOf(shop, [...settings, 'health 32090']);
  expect(planeOf(from).compare(from, to)).toMatchObject({ changed: [], isRestSame: false, frontends: undefined });
});

test('another mode has other Services', () => {
  const to = stateOf({ [cluster]: plain });
  expect(
    serviceChanges({ families: {} }, to).map(({ key, before, after }) => [key, before, after?.endpoints.size]),
  ).toEqual([['10.96.0.10:80/TCP', undefined, 2]]);
});

test('taken lists change their lines alone; the local list stays within the list', () => {
  const from = stateOf(shop);
  const after = { ...near, endpoints: [b, c], local: [c] };
  const to = stateOf({ ...shop, [external]: after });
  const comparison = planeOf(from).compare(from, to);
  const taken = (...lists: readonly string[]): ForwardingState =>
    comparison.withEndpoints(comparison.changed.filter(({ key }) => lists.some((list) => key.endsWith(list))));
  const linesIn = (state: ForwardingState) => state.nft?.frontends.get(external);
  expect(taken('local', '/TCP').nft).toBe(to.nft);
  expect(linesIn(taken('/TCP'))).toEqual(frontendLines({ ...near, endpoints: [b, c], local: [a] }));
  expect(taken('/TCP').nft?.frontends.get(cluster)).toBe(from.nft?.frontends.get(cluster));
  expect(taken('/TCP').nft?.frontends).toBeInstanceOf(Layered);
  expect([taken(), taken('local')]).toEqual([from, from]);
});

test('a list that is taken has the weights of its endpoints', () => {
  const before = { ...near, weights: new Map([[a, 3]]) };
  const after = {
    ...near,
    endpoints: [a, b, c],
    local: [a, c],
    weights: new Map([
      [a, 3],
      [c, 3],
    ]),
  };
  const comparison = compared({ [external]: before }, { [external]: after });
  const taken = comparison.withEndpoints(comparison.changed.filter(({ key }) => !key.endsWith(' local')));
  expect(taken.nft?.frontends.get(external)).toEqual(
    frontendLines({
      ...before,
      endpoints: [a, b, c],
      weights: new Map([
        [a, 3],
        [c, 3],
      ]),
    }),
  );
});

const endpoints = fc.uniqueArray(fc.constantFrom(a, b, c, d), { maxLength: 4 });

/** A frontend as files have it. */
const someBody: fc.Arbitrary<Body> = fc
  .record({
    outside: fc.constantFrom('cluster', 'local', undefined),
    affinity: fc.option(fc.constantFrom(60, 600), { nil: undefined, freq: 8 }),
    ranges: fc.constantFrom([], [], ['192.0.2.0/24']),
    none: fc.constantFrom('refuse', 'drop'),
    endpoints,
    isHere: fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }),
  })
  .map(({ outside, affinity, ranges, none, endpoints: all, isHere }) => {
    const local = outside === 'local' ? all.filter((_one, at) => isHere[at]) : [];
    const isServed = all.length > 0 && (outside !== 'local' || local.length > 0);
    return {
      isClusterIP: outside === undefined,
      ...(outside ? { outside } : {}),
      ...(affinity === undefined ? {} : { affinitySeconds: affinity }),
      ranges,
      ...(isServed ? {} : { none: all.length > 0 ? 'drop' : none }),
      endpoints: all,
      local,
    };
  });

const someFrontends = fc.dictionary(fc.constantFrom(cluster, external, nodePort), someBody, { maxKeys: 3 });

const membersOf = ({ nft }: ForwardingState): readonly unknown[] =>
  [...(nft?.frontends ?? [])]
    .map(([key, lines]): NftFrontend => readFrontend(key, lines))
    .map((one) => ({ ...one, endpoints: one.endpoints.toSorted(), local: one.local.toSorted() }))
    .toSorted((x, y) => (x.key < y.key ? -1 : 1));

/** Each list of a state with its endpoints, sorted. */
function listsOf({ nft }: ForwardingState): ReadonlyMap<string, string> {
  const all = new Map<string, string>();
  for (const [key, lines] of nft?.frontends ?? []) {
    const { address, port, outside, endpoints: list, local } = readFrontend(key, lines);
    all.set(`${address}:${port}/TCP`, list.toSorted().join());
    if (outside === 'local') all.set(`${address}:${port}/TCP local`, local.toSorted().join());
  }
  return all;
}

/** Frontends before and after a change: mostly with the same policies. */
const someChange = fc.tuple(someFrontends, someFrontends, fc.boolean()).map(([before, others, isRelease]) => {
  const alike = Object.entries(before).map(([key, body]) => {
    const other = others[key];
    return [key, other && frameOf(other) === frameOf(body) ? other : body] as const;
  });
  return { before, after: isRelease ? others : (Object.fromEntries(alike) as Readonly<Record<string, Body>>) };
});

test('a comparison agrees with a plain one of whole states', () => {
  const agrees = ({ before, after }: { before: Readonly<Record<string, Body>>; after: typeof before }): void => {
    const [from, to] = [stateOf(before), stateOf(after)];
    const comparison = planeOf(from).compare(from, to);
    const [had, has] = [listsOf(from), listsOf(to)];
    const differ = [...had.keys()].filter((key) => has.has(key) && has.get(key) !== had.get(key));
    const found = comparison.changed.filter((one) => one.before && one.after).map(({ key }) => key);
    expect(found.toSorted()).toEqual(differ.toSorted());
    const isFrameSame =
      Object.keys(before).toSorted().join() === Object.keys(after).toSorted().join() &&
      Object.entries(before).every(([key, body]) => frameOf(body) === frameOf(after[key]));
    expect(comparison.frontends !== undefined).toBe(isFrameSame);
    if (!comparison.isRestSame) return;
    expect(membersOf(comparison.withEndpoints(comparison.changed))).toEqual(membersOf(to));
    // One list alone leaves the other one to be taken later.
    for (const one of comparison.changed.filter(({ fits }) => fits)) {
      const next = comparison.withEndpoints([one]);
      const rest = planeOf(next).compare(next, to);
      const others = comparison.changed.filter((other) => other !== one || next === from);
      expect([rest.isRestSame, rest.changed.map(({ key }) => key)]).toEqual([true, others.map(({ key }) => key)]);
    }
  };
  fc.assert(fc.property(someChange, agrees));
});

/** What no endpoint decides. */
const frameOf = (body: Body | undefined): string =>
  JSON.stringify([body?.isClusterIP, body?.outside, body?.affinitySeconds, body?.ranges]);

test('the key of each frontend reads back', () => {
  for (const key of [cluster, external, nodePort, own6]) expect(frontendKey(readFrontendKey(key))).toBe(key);
});
