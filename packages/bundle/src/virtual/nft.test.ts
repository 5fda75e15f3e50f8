import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { runs } from '@sluice/testing';
import type { NftState } from '../../../netfilter/src/nftables/state.ts';
import { ruleLimits } from '../../../netfilter/src/limits.ts';
import { printNftTable } from '../../../netfilter/src/nftables/table.ts';
import { NftMemory, readNft } from '../../../netfilter/src/nftables/read-state.ts';
import { differing } from '../../../netfilter/src/layered.ts';
import { resolveNode } from '../node.ts';
import { ResolveCache } from '../resolve-cache.ts';
import { nftBundle, nftServices } from './nft.fixture.ts';

function stateOf(files: ReadonlyMap<string, string>, node: string, cache?: ResolveCache): NftState {
  const resolved = resolveNode(files, node, cache);
  if (!('version' in resolved) || !resolved.nft) throw new Error(JSON.stringify(resolved));
  const state = readNft(resolved.nft);
  if ('problems' in state) throw new Error(JSON.stringify(state.problems));
  return state;
}

function problemsOf(files: ReadonlyMap<string, string>): readonly string[] {
  const resolved = resolveNode(files, 'node-a');
  if (!('version' in resolved)) return resolved.map(({ at, message }) => `${at?.file}:${at?.line} ${message}`);
  const state = readNft(resolved.nft ?? []);
  return 'problems' in state ? state.problems.map(({ at, message }) => `${at?.file}:${at?.line} ${message}`) : [];
}

test('reads the frontends of each node', () => {
  const [a, b] = [stateOf(nftBundle(), 'node-a'), stateOf(nftBundle(), 'node-b')];
  expect(a.settings).toEqual([
    'table 4 address',
    'pods 10.244.0.0/16',
    'pods fd00:10:244::/56',
    'keep 10.244.0.0/16',
    'keep fd00:10:244::/56',
    'node 192.0.2.11',
    'node fd00::11',
    'cidr 10.96.0.0/16',
    'health 32090',
  ]);
  const lines = (state: NftState, key: string): readonly string[] | undefined => state.frontends.get(key);
  expect([...a.frontends.keys()].toSorted()).toEqual([...b.frontends.keys()].toSorted());
  expect(lines(a, '10.96.0.10 . tcp . 80')).toEqual(['cluster-ip', 'endpoint 10.244.1.5 . 8080', 'here 10.244.1.5']);
  expect(lines(b, '10.96.0.10 . tcp . 80')).toEqual(['cluster-ip', 'endpoint 10.244.2.7 . 8080']);
  expect(lines(a, '10.96.0.10 . udp . 53')).toEqual(['cluster-ip', 'none drop']);
  expect(lines(b, '10.96.0.10 . udp . 53')).toEqual(['cluster-ip', 'endpoint 10.244.2.7 . 5353']);
  expect(lines(a, '0.0.0.0 . tcp . 30090')).toEqual([
    'outside local',
    'endpoint 10.244.1.5 . 8080',
    'local 10.244.1.5 . 8080',
  ]);
  expect(lines(b, '0.0.0.0 . tcp . 30090')).toEqual(['outside local', 'none drop', 'endpoint 10.244.1.5 . 8080']);
  expect(lines(a, '203.0.113.9 . tcp . 80')).toEqual([
    'outside local',
    // 198.51.100.7 lies in the network.
    'range 198.51.100.0/25',
    'range 203.0.113.9',
    'endpoint 10.244.1.5 . 8080',
    'local 10.244.1.5 . 8080',
  ]);
  expect(lines(b, '203.0.113.9 . tcp . 80')).toContain('range 198.51.100.0/25');
  expect(lines(b, '203.0.113.9 . tcp . 80')).not.toContain('range 203.0.113.9');
  expect(lines(a, '0.0.0.0 . tcp . 30060')).toEqual([
    'outside cluster',
    'affinity 600',
    'endpoint 10.244.1.5 . 8080',
    'endpoint 10.244.2.7 . 8080',
  ]);
  expect(lines(a, '10.96.0.40 . tcp . 80')).toEqual(['cluster-ip', 'none refuse']);
  expect(lines(a, '10.96.0.72 . tcp . 80')).toEqual([
    'cluster-ip',
    'scheduler maglev 251',
    'endpoint 10.244.1.5 . 8080',
    'endpoint 10.244.2.7 . 8080',
    'weight 3 10.244.2.7 . 8080',
  ]);
});

test('an unchanged file keeps the identity of its lines', () => {
  const cache = new ResolveCache();
  const files = nftBundle();
  const changed = new Map(files).set('profiles/default/services/shop/empty.nft', nftServices['shop/sticky'] as string);
  changed.delete('profiles/default/services/shop/sticky.nft');
  const [one, other] = [stateOf(files, 'node-a', cache), stateOf(changed, 'node-a', cache)];
  const key = '10.96.0.30 . tcp . 80';
  expect(other.frontends.get(key)).toBe(one.frontends.get(key));
  expect(other.frontends.has('10.96.0.40 . tcp . 80')).toBe(false);
});

const cart = nftServices['shop/cart'] as string;
const withCart = (text: string): ReadonlyMap<string, string> => nftBundle({ 'shop/cart': text });
const add = (set: string, element: string): string => `add element inet sluice ${set} { ${element} }\n`;

test.each([
  ['a table that sluice does not write', nftBundle({}, { first: 'table inet sluice {\n}\n' }), 'knows no such table'],
  [
    'an interface that is no variable',
    nftBundle({}, { first: printNftTable({ detector: { interface: 'a" ; flush ruleset' }, masqueradeAll: false }) }),
    'knows no such table',
  ],
  ['a base file without the table', nftBundle({}, { first: add('pods4', '10.0.0.0/8') }), 'no base/first.nft'],
  ['elements of Services in a base file', nftBundle({}, { last: cart }), 'a base file has no such line'],
  ['settings in the file of a Service', withCart(add('pods4', '10.0.0.0/8')), 'a service file has no such line'],
  ['a table in the file of a Service', withCart('table inet sluice {\n}\n'), 'a service file has no such line'],
  ['another command', withCart('delete table inet sluice\n'), 'a service file has no such line'],
  ['another table', withCart(cart.replace('inet sluice', 'inet filter')), 'a service file has no such line'],
  ['a second command in a line', withCart(add('cluster4', '10.96.0.1 } ; flush ruleset')), 'not a valid element'],
  ['a variable of another file', withCart(add('cluster4', '${host.x}')), '${host.x is not a variable'],
  ['an address of the other family', withCart(add('cluster4', 'fd00::1')), 'not a valid element of cluster4'],
  ['an address in another spelling', withCart(add('cluster6', 'FD00::1')), 'not a valid element of cluster6'],
  ['a fixed length of a list', withCart(cart.replaceAll('n${count}', 'n1')), 'not a valid element of svc4'],
  ['a verdict of a node port for an address', withCart(cart.replaceAll('goto n', 'goto pn')), 'not a valid element'],
  [
    'a frontend without endpoints and verdict',
    withCart(cart.replace(/add element inet sluice none4.*\n/, '')),
    'is not in none',
  ],
  [
    'a local list without policy Local',
    withCart(`${cart}${add('tcp4', '10.96.0.10 . 80 . ${localSlot} : 10.0.0.1 . 1')}`),
    'not in out',
  ],
  [
    'both policies',
    withCart(`${cart}${add('near4', '10.96.0.10 . tcp . 80')}${add('always4', '10.96.0.10 . tcp . 80')}`),
    'in near and in always',
  ],
  [
    'ranges without their frontend',
    withCart(`${cart}${add('allow4', '10.96.0.10 . tcp . 80 . 10.0.0.0/8')}`),
    'only one of fw and allow',
  ],
  ['a loopback endpoint', withCart(cart.replaceAll('10.244.1.5', '127.0.0.1')), 'not a valid element of tcp4'],
  [
    'an endpoint twice',
    withCart(`${cart}${add('tcp4', '10.96.0.10 . 80 . ${slot} : 10.244.1.5 . 8080')}`),
    'an endpoint twice',
  ],
  ['a frontend in two files', nftBundle({ 'shop/cart': cart, 'shop/other': cart }), 'another file has frontend'],
  [
    'lists that choose in different ways',
    withCart(`${cart}${add('svc4', '10.96.0.10 . tcp . 80 : goto m1009')}`),
    'chooses endpoints in different ways',
  ],
  [
    'different weights of one endpoint',
    withCart(`${cart}${add('tcp4', '10.96.0.10 . 80 . ${slot:3} : 10.244.1.5 . 8080')}`),
    'has different weights of one endpoint',
  ],
])('refuses %s', (_title, files, why) => {
  expect(problemsOf(files).join('\n')).toContain(why);
});

test.each([
  'i3',
  'i${localCount}',
  'il${count}',
  'h${count}t600',
  'm1008',
  'm0251',
  'm${count}',
  'ml1009',
  'i${count}-1',
])('refuses the list %s', (list) => {
  expect(problemsOf(withCart(cart.replaceAll('n${count}', list))).join('\n')).toContain('not a valid element of svc4');
});

test.each(['0', '1', '03', '65536', '1000000000'])('refuses weight %s', (weight) => {
  const text = cart.replaceAll('${slot}', `\${slot:${weight}}`);
  expect(problemsOf(withCart(text)).join('\n')).toContain('not a valid element of tcp4');
});

test.each(['${slot:}', '${slot:-1}', '${slot:3x}', '${slots:3}', '${count:3}'])(
  'refuses the variable %s',
  (variable) => {
    expect(problemsOf(withCart(cart.replaceAll('${slot}', variable))).join('\n')).toContain('is not a variable');
  },
);

test('refuses .nft files in another mode', () => {
  const files = new Map(nftBundle());
  files.set(
    'profiles/default/profile.yaml',
    (files.get('profiles/default/profile.yaml') ?? '').replace('nftables', 'iptables'),
  );
  expect(problemsOf(files).join('\n')).toContain('not in mode nftables');
});

test('the interface of a profile is part of the table', () => {
  const first = printNftTable({ detector: { interface: '${profile.interfaceNamePrefix}*' }, masqueradeAll: true });
  const files = new Map(nftBundle(nftServices, { first }));
  const profile = 'profiles/default/profile.yaml';
  files.set(profile, (files.get(profile) ?? '').replace('values: {}', 'values: { interfaceNamePrefix: cali }'));
  expect(stateOf(files, 'node-a').settings[0]).toBe('table 4 interface cali* masquerade-all');
});

test('a bundle with an older text of the table keeps its version, and gives the same state', () => {
  const options = { detector: 'address', masqueradeAll: false } as const;
  const old = nftBundle(nftServices, { first: printNftTable(options, 1) });
  const [before, after] = [old, nftBundle()].map((files) => resolveNode(files, 'node-a'));
  const [first] = before && 'version' in before ? (before.nft ?? []) : [];
  expect(first?.lines).toEqual([{ text: 'table 1 address', line: 1 }]);
  expect(before).not.toMatchObject({ version: after && 'version' in after ? after.version : '' });
  expect(stateOf(old, 'node-a')).toEqual(stateOf(nftBundle(), 'node-a'));
});

test('a file with a problem in each line: reports the first problems, and the number of the rest', () => {
  const bad = Array.from({ length: 300 }, () => add('cluster4', 'nowhere')).join('');
  const found = problemsOf(withCart(bad));
  expect(found).toHaveLength(ruleLimits.problemsPerFileMax);
  expect(found[0]).toContain('profiles/default/services/shop/cart.nft:1 ');
  expect(found.at(-1)).toMatch(/ \(and \d+ more problems in this file\)$/);
});

/** Texts of some Services, of which one is refused, one adds a setting, and two have the same frontend. */
const variants: readonly Readonly<Record<string, string>>[] = Object.entries(nftServices).flatMap(([name, text]) => [
  {},
  { [name]: text },
  { [name]: text.replaceAll('10.244.1.5', '10.244.1.6') },
  { [name]: `${text}add element inet sluice health4 { 32091 }\n` },
  { [name]: text.replaceAll('10.96.0.10', '10.96.0.40') },
  { [name]: `${text}add element inet sluice svc4 { 10.96.0.10 . tcp }\n` },
]);

test('what is remembered of earlier bundles changes no result', () => {
  const changed = fc.array(fc.constantFrom(...variants), { maxLength: 5 });
  const removed = fc.subarray(Object.keys(nftServices), { maxLength: 2 });
  const bundle = fc.tuple(changed, removed).map(([some, gone]) => {
    const services: Record<string, string> = Object.assign({ ...nftServices }, ...some);
    return nftBundle(Object.fromEntries(Object.entries(services).filter(([name]) => !gone.includes(name))));
  });
  const step = fc.record({ bundle, node: fc.constantFrom('node-a', 'node-b') });
  fc.assert(
    fc.property(fc.array(step, { minLength: 2, maxLength: 8 }), (steps) => {
      const [cache, memory] = [new ResolveCache(), new NftMemory()];
      for (const { bundle: files, node } of steps) {
        const read = (its: ResolveCache, reading?: NftMemory): unknown => {
          const resolved = resolveNode(files, node, its);
          if (!('version' in resolved)) return resolved;
          const state = readNft(resolved.nft ?? [], reading);
          return [resolved, 'problems' in state ? state : [state.settings, new Map(state.frontends)]];
        };
        expect(read(cache, memory)).toEqual(read(new ResolveCache()));
      }
    }),
    runs(100),
  );
});

test('a Service that is added or removed changes its own frontends: all others keep the identity of their lines', () => {
  const [cache, memory] = [new ResolveCache(), new NftMemory()];
  const read = (services: Readonly<Record<string, string>>): NftState => {
    const resolved = resolveNode(nftBundle(services), 'node-a', cache);
    if (!('version' in resolved)) throw new Error(JSON.stringify(resolved));
    const state = readNft(resolved.nft ?? [], memory);
    if ('problems' in state) throw new Error(JSON.stringify(state.problems));
    return state;
  };
  const { 'shop/cart': own = '', ...others } = nftServices;
  const without = read(others);
  const added = read({ ...others, 'shop/cart': own });
  expect(differing(without.frontends, added.frontends)).toEqual([
    '10.96.0.10 . tcp . 80',
    '10.96.0.10 . udp . 53',
    'fd00:10:96::a . tcp . 80',
  ]);
  const again = read(others);
  expect(differing(without.frontends, again.frontends)).toEqual([]);
  expect(again.frontends.size).toBe(without.frontends.size);
});
