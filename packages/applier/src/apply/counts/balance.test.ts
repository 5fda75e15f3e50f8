// @module-tag quick
import { frontendLines, readServerLine } from '@sluice/netfilter';
import { randomOf } from '@sluice/testing';
import { expect, test } from 'vitest';
import type { NodeState } from '../../ports/node-state.ts';
import { Balance } from './balance.ts';
import type { RuleCount } from './rule-counts.ts';
import { ServiceCounts } from './service-counts.ts';
import { type Shares, sharesOf } from './shares.ts';

const ofChains = (chains: Readonly<Record<string, readonly string[]>>): NodeState => ({
  families: {
    ipv4: {
      filter: { chains: new Map(), jumps: new Map() },
      nat: { chains: new Map(Object.entries(chains)), jumps: new Map() },
    },
  } as unknown as NodeState['families'],
  sysctls: new Map(),
});
const dice = (chance: number): string => `-m statistic --mode random --probability ${chance.toFixed(10)}`;
const web = 'SLU-SVC-WEBWEBWEBWEBWEB2.1c';
const group = 'SLU-GRP-WEBWEBWEBWEBWEB2.2c';

test('shares follow from the probabilities of rules, over groups and chains of endpoints', () => {
  const state = ofChains({
    [web]: [
      `-A ${web} ! -s 10.244.0.0/16 -d 10.96.0.10/32 -j KUBE-MARK-MASQ`,
      `-A ${web} -p tcp ${dice(0.25)} -j DNAT --to-destination 10.244.0.1:8080`,
      `-A ${web} ${dice(2 / 3)} -g ${group}`,
      `-A ${web} -j KUBE-SEP-AAAAAAAAAAAAAAAA`,
    ],
    [group]: [
      `-A ${group} -p tcp ${dice(0.5)} -j DNAT --to-destination 10.244.0.2:8080`,
      `-A ${group} -p tcp -j DNAT --to-destination 10.244.0.3:8080`,
    ],
    'KUBE-SEP-AAAAAAAAAAAAAAAA': [
      '-A KUBE-SEP-AAAAAAAAAAAAAAAA -s 10.244.0.4/32 -j KUBE-MARK-MASQ',
      '-A KUBE-SEP-AAAAAAAAAAAAAAAA -p tcp -j DNAT --to-destination 10.244.0.4:8080',
    ],
  });
  const shares = [...(sharesOf(state, 'ipv4', web) ?? [])];
  expect(shares.map(([endpoint]) => endpoint)).toEqual([1, 2, 3, 4].map((n) => `10.244.0.${n}:8080`));
  for (const [, share] of shares) expect(share).toBeCloseTo(0.25, 8);
});

test.each([
  ['session affinity', [`-A ${web} -m recent --name X --rcheck -j KUBE-SEP-A`, `-A ${web} -j KUBE-SEP-A`]],
  ['a rule that takes some sources', [`-A ${web} -s 10.0.0.0/8 -j KUBE-SEP-A`, `-A ${web} -j KUBE-SEP-A`]],
  ['rules that leave something', [`-A ${web} ${dice(0.5)} -j DNAT --to-destination 10.244.0.1:80`]],
])('no shares are known of %s', (_, rules) => {
  const endpoint = ['-A KUBE-SEP-A -p tcp -j DNAT --to-destination 10.244.0.1:80'];
  expect(sharesOf(ofChains({ [web]: rules, 'KUBE-SEP-A': endpoint }), 'ipv4', web)).toBeUndefined();
});

test.each([
  ['turns', '-s rr', [1, 1, 0], [0.5, 0.5, 0]],
  ['weighted turns', '-s wrr', [1, 3, 0], [0.25, 0.75, 0]],
  ['turns for all connections of a client', '-s rr -p 60', [1, 1, 0], undefined],
  ['least connections', '-s lc', [1, 1, 0], undefined],
  ['nothing to choose from', '-s rr', [0, 0, 0], undefined],
] as const)('shares of virtual servers: %s', (_, attributes, weights, expected) => {
  const read = readServerLine(`-A -t 10.96.0.10:80 ${attributes}`);
  if ('error' in read || read.kind !== 'virtual') throw new Error(JSON.stringify(read));
  const real = new Map(
    weights.map((weight, n) => [`10.244.0.${n}:8080`, { address: `10.244.0.${n}`, port: 8080, weight }] as const),
  );
  const key = '10.96.0.10:80/TCP';
  const ipvs = { virtualServers: new Map([[key, { ...read.server, real }]]), excludeCIDRs: [] };
  const state = { families: {}, sysctls: new Map(), ipvs } as unknown as NodeState;
  const shares = sharesOf(state, 'ipv4', key);
  expect(shares && [...shares.values()]).toEqual(expected);
});

const endpoints = ['10.244.0.1 . 8080', '10.244.0.2 . 8080'];
const plain = { isClusterIP: true, ranges: [], endpoints, local: [] };

test.each([
  ['weights', { weights: new Map([['10.244.0.2 . 8080', 3]]) }, [0.25, 0.75]],
  ['turns', { scheduler: 'round-robin' }, [0.5, 0.5]],
  ['session affinity', { affinitySeconds: 600 }, undefined],
  ['hashes of clients', { scheduler: 'source-hash' }, undefined],
  ['policy Local with some endpoints on the node', { outside: 'local', local: endpoints.slice(1) }, undefined],
] as const)('shares of a frontend with %s', (_, more, expected) => {
  const frontends = new Map([['10.96.0.10 . tcp . 80', frontendLines({ ...plain, ...more })]]);
  const state: NodeState = { families: {}, sysctls: new Map(), nft: { settings: [], frontends } };
  const shares = sharesOf(state, 'ipv4', '10.96.0.10 . tcp . 80');
  expect(shares && [...shares.values()]).toEqual(expected);
});

/** Readings of one Service whose endpoints take connections with these chances. */
class Traffic {
  readonly #chances: readonly number[];
  readonly #counts: number[];
  readonly #random: () => number;

  constructor(chances: readonly number[], seed: number) {
    this.#chances = chances;
    this.#counts = chances.map(() => 0);
    this.#random = randomOf(seed);
  }

  /** @returns what the rules count after more connections; those that counted nothing are not read */
  more(connections: number): readonly RuleCount[] {
    for (let n = 0; n < connections; n++) {
      let at = this.#random();
      const chosen = this.#chances.findIndex((chance) => (at -= chance) < 0);
      this.#counts[chosen] = (this.#counts[chosen] ?? 0) + 1;
    }
    return this.#counts.flatMap((count, at) =>
      count === 0 ? [] : [{ service: 'shop/web', chain: web, group: web, endpoint: `e${at}`, connections: count }],
    );
  }
}

/** Ten readings, 10 s apart. */
function balanceOf(traffic: Traffic, shares: (reading: number) => Shares | undefined): Balance {
  const balance = new Balance();
  let before = new Map<string, number>();
  for (let reading = 0; reading < 10; reading++) {
    const all = traffic.more(200);
    const came = all.map((one) => ({ ...one, connections: one.connections - (before.get(one.endpoint) ?? 0) }));
    before = new Map(all.map(({ endpoint, connections }) => [endpoint, connections]));
    balance.take(all, came, () => shares(reading), reading * 10_000);
  }
  return balance;
}

const even = (count: number): Shares => new Map(Array.from({ length: count }, (_, at) => [`e${at}`, 1 / count]));

test('chance alone raises no warning, in two hundred runs with even and uneven shares', () => {
  const far = Array.from({ length: 200 }, (_, seed) => [
    ...balanceOf(new Traffic([0.25, 0.25, 0.25, 0.25], seed), () => even(4)).far,
    ...balanceOf(
      new Traffic([0.1, 0.9], seed),
      () =>
        new Map([
          ['e0', 0.1],
          ['e1', 0.9],
        ]),
    ).far,
  ]).flat();
  expect(far).toEqual([]);
});

test('finds an endpoint with far less than its share, one with nothing, and one with far more', () => {
  const far = (chances: readonly number[]) =>
    balanceOf(new Traffic(chances, 7), () => even(chances.length)).far.map(({ endpoint }) => endpoint);
  expect(far([0.1, 0.45, 0.45])).toEqual(['e0']);
  expect(far([0, 0.5, 0.5])).toEqual(['e0']);
  expect(far([0.7, 0.1, 0.1, 0.1])).toEqual(['e0', 'e1', 'e2', 'e3']);
  // 30 % off: no factor of two.
  expect(far([0.35, 0.65])).toEqual([]);
});

test('says what it should have been', () => {
  expect(balanceOf(new Traffic([0, 0.5, 0.5], 7), () => even(3)).far).toEqual([
    // Nine of ten readings: what the first one counted may be older than the shares.
    { service: 'shop/web', endpoint: 'e0', connections: 0, expected: 600 },
  ]);
});

test('counts nothing while a release is on probation, nor across a repair, and forgets what it had counted before one', () => {
  const reading = (balance: Balance, e0: number, e1: number, atMs: number, rules: string | undefined): void => {
    const of = (endpoint: string, connections: number): RuleCount => ({
      service: 'shop/web',
      chain: web,
      group: web,
      endpoint,
      connections,
    });
    balance.take([of('e0', 1), of('e1', 1)], [of('e0', e0), of('e1', e1)], () => even(2), atMs, rules);
  };
  const far = (...rules: readonly (string | undefined)[]): number => {
    const balance = new Balance();
    // The rule of e0 is missing before the last reading but one.
    for (const [at, one] of rules.entries()) reading(balance, at === 1 ? 0 : 50, at === 1 ? 400 : 50, at * 10_000, one);
    return balance.far.length;
  };
  expect(far('0', '0'), 'without a repair').toBe(1);
  expect(far('0', '1'), 'a repair within the reading').toBe(0);
  expect(far('0', '0', '1'), 'a repair after the reading').toBe(0);
  expect(far('0', undefined), 'on probation').toBe(0);
  expect(far(undefined, '0'), 'the first reading after it').toBe(0);
});

test('says nothing where shares are not known, or change with each reading', () => {
  const skewed = (): Traffic => new Traffic([0.1, 0.9], 7);
  expect(balanceOf(skewed(), () => undefined).far).toEqual([]);
  const changing = (reading: number): Shares =>
    new Map([
      ['e0', 0.5 + reading / 100],
      ['e1', 0.5 - reading / 100],
    ]);
  expect(balanceOf(skewed(), changing).far).toEqual([]);
});

test('a warning ends when a later window is even, and with the traffic', () => {
  const balance = new Balance();
  const reading = (e0: number, e1: number, atMs: number): void => {
    const of = (endpoint: string, connections: number): RuleCount => ({
      service: 'shop/web',
      chain: web,
      group: web,
      endpoint,
      connections,
    });
    balance.take([of('e0', 1), of('e1', 1)], [of('e0', e0), of('e1', e1)], () => even(2), atMs);
  };
  const minute = 60_000;
  reading(0, 0, 0);
  reading(10, 190, minute);
  expect(balance.far).toHaveLength(1);
  // Not enough in the next window to judge.
  reading(5, 5, 12 * minute);
  expect(balance.far).toHaveLength(1);
  reading(60, 60, 13 * minute);
  expect(balance.far).toEqual([]);
  reading(10, 400, 24 * minute);
  expect(balance.far).toHaveLength(1);
  balance.take([], [], () => even(2), 60 * minute);
  expect(balance.far).toEqual([]);
});

test('tells shares of a Service, with endpoints that have no connections', () => {
  const frontends = new Map([['10.96.0.10 . tcp . 80', frontendLines(plain)]]);
  const state: NodeState = { families: {}, sysctls: new Map(), nft: { settings: [], frontends } };
  const counts = new ServiceCounts();
  const key = '10.96.0.10 . tcp . 80';
  const take = (connections: number, atMs: number) =>
    counts.take(
      [{ service: 'shop/web', chain: key, group: key, endpoint: '10.244.0.1:8080', connections }],
      state,
      atMs,
    );
  expect(take(1, 0)).toMatchObject({ seconds: null, imbalances: [] });
  expect(take(201, 10_000)).toMatchObject({
    seconds: 10,
    imbalances: [{ service: 'shop/web', endpoint: '10.244.0.2:8080', connections: 0, expected: 100 }],
    services: [
      {
        service: 'shop/web',
        connections: 201,
        recent: 200,
        endpoints: [
          { endpoint: '10.244.0.1:8080', connections: 201, recent: 200, share: 1, expectedShare: 0.5 },
          { endpoint: '10.244.0.2:8080', connections: 0, recent: 0, share: 0, expectedShare: 0.5 },
        ],
      },
    ],
  });
});
