import { expect, test } from 'vitest';
import { frontendLines, type NftState, tableNames, targetOf } from '@sluice/netfilter';
import { familiesOf, type NodeState, tableOf } from '../../ports/node-state.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { scene } from '../../testing/scene.fixture.ts';
import { formOf } from './forms.ts';
import { rehearsalSample } from './rehearsal-sample.ts';

/** What a kernel holds after a release of 40 Services, of which some have no endpoints. */
async function stateOf(services: number): Promise<NodeState> {
  const node = scene();
  try {
    const { reconciler, journal } = await node.start();
    const names = Array.from({ length: services }, (_, n) => [`shop/web-${n}`, n % 7 === 0 ? [] : [1, 2, 3]] as const);
    expect((await reconciler.put(sampleBundle({ services: Object.fromEntries(names) }), true)).kind).toBe('confirmed');
    return journal.active?.state as NodeState;
  } finally {
    node.end();
  }
}

const tablesOf = (state: NodeState) =>
  familiesOf(state).flatMap((family) =>
    tableNames.map((table) => ({ family, table, ...tableOf(state, family, table) })),
  );

const formsOf = (state: NodeState): readonly string[] =>
  tablesOf(state).flatMap(({ family, table, chains, jumps }) =>
    [...jumps, ...[...chains.values()].flat()].map((rule) => formOf(family, table, rule)),
  );

const countRules = (state: NodeState): number =>
  tablesOf(state).reduce((sum, { chains }) => sum + [...chains.values()].flat().length, 0);

test('has every form of the state in few rules, and does not grow with the number of Services', async () => {
  const [small, large] = [await stateOf(20), await stateOf(60)];
  const sample = rehearsalSample(large);
  expect(new Set(formsOf(sample))).toEqual(new Set(formsOf(large)));
  expect(countRules(sample)).toBeLessThan(countRules(large) / 4);
  expect(Math.abs(countRules(sample) - countRules(rehearsalSample(small)))).toBeLessThan(10);
});

test('reaches each of its chains from the built-in chains that reach it in the state, and leads to no missing chain', async () => {
  const state = await stateOf(20);
  const sample = rehearsalSample(state);
  for (const { family, table, chains, jumps } of tablesOf(sample)) {
    const whole = tableOf(state, family, table);
    const [reached, inWhole] = [reachedFrom(jumps, chains), reachedFrom(whole.jumps, whole.chains)];
    expect([...chains.keys()].filter((chain) => inWhole.has(chain) && !reached.has(chain))).toEqual([]);
    const targets = [...chains.values()].flat().map((rule) => targetOf(rule) ?? '');
    expect(targets.filter((target) => whole.chains.has(target) && !chains.has(target))).toEqual([]);
  }
});

test('takes a form from a chain that packets reach, if one has it', () => {
  const [stray, reached] = ['KUBE-SVC-AAAAAAAAAAAAAAAA', 'KUBE-SVC-BBBBBBBBBBBBBBBB'];
  const chains = new Map([
    [stray, [`-A ${stray} -p tcp -j ACCEPT`]],
    [reached, [`-A ${reached} -p tcp -j ACCEPT`]],
    ['KUBE-SERVICES', [`-A KUBE-SERVICES -d 10.96.0.10/32 -j ${reached}`]],
  ]);
  const filter = { chains, jumps: ['-A INPUT -j KUBE-SERVICES'] };
  const nat = { chains: new Map<string, readonly string[]>(), jumps: [] };
  const sample = rehearsalSample({ families: { ipv4: { filter, nat } }, sysctls: new Map() });
  expect([...tableOf(sample, 'ipv4', 'filter').chains.keys()]).toEqual([reached, 'KUBE-SERVICES']);
});

function reachedFrom(jumps: readonly string[], chains: ReadonlyMap<string, readonly string[]>): ReadonlySet<string> {
  const reached = new Set(jumps.map((jump) => targetOf(jump) ?? ''));
  for (const chain of reached) for (const rule of chains.get(chain) ?? []) reached.add(targetOf(rule) ?? '');
  return reached;
}

/** A frontend of mode nftables, with as many endpoints as asked. */
type Shape = Partial<Parameters<typeof frontendLines>[0]> & { readonly count?: number };

const nodeOf = (shapes: Readonly<Record<string, Shape>>): NodeState & { readonly nft: NftState } => {
  const frontends = Object.entries(shapes).map(([key, { count = 2, ...shape }]) => {
    const endpoints = Array.from({ length: count }, (_, n) => `10.244.1.${n + 1} . 8080`);
    return [key, frontendLines({ isClusterIP: true, ranges: [], endpoints, local: [], ...shape })] as const;
  });
  return {
    families: {},
    sysctls: new Map(),
    nft: { settings: ['table 3 address'], frontends: new Map(frontends) },
  };
};

test.each<[title: string, first: Shape, second: Shape, isTaken: boolean]>([
  ['another number of endpoints', { count: 2 }, { count: 5 }, false],
  ['another time of session affinity', { affinitySeconds: 600 }, { affinitySeconds: 60 }, false],
  ['the same scheduler', { scheduler: 'round-robin' }, { scheduler: 'round-robin' }, false],
  ['another scheduler', { scheduler: 'source-hash' }, { scheduler: 'round-robin' }, true],
  ['session affinity', {}, { affinitySeconds: 600 }, true],
  ['no endpoint', {}, { count: 0, none: 'refuse' }, true],
  ['another answer without endpoints', { count: 0, none: 'refuse' }, { count: 0, none: 'drop' }, true],
  ['access from outside', {}, { outside: 'cluster' }, true],
  ['endpoints of the node', {}, { here: ['10.244.1.1'] }, true],
  ['source ranges', { ranges: ['192.0.2.0/24'] }, { ranges: ['198.51.100.0/24'] }, true],
])('mode nftables: of a second frontend with %s', (_title, first, second, isTaken) => {
  const state = nodeOf({ '10.96.0.10 . tcp . 80': first, '10.96.0.11 . tcp . 80': second });
  const { nft } = rehearsalSample(state);
  expect(nft?.settings).toEqual(state.nft.settings);
  expect([...(nft?.frontends.keys() ?? [])]).toEqual(
    ['10.96.0.10 . tcp . 80', '10.96.0.11 . tcp . 80'].slice(0, isTaken ? 2 : 1),
  );
});

test('mode nftables: takes a frontend of each protocol, family and kind of address', () => {
  const keys = ['10.96.0.10 . tcp . 80', '10.96.0.10 . udp . 53', 'fd00::1 . tcp . 80', '0.0.0.0 . tcp . 30080'];
  const state = nodeOf(Object.fromEntries(keys.map((key) => [key, {}])));
  expect([...(rehearsalSample(state).nft?.frontends.keys() ?? [])]).toEqual(keys);
});
