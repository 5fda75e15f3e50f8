import { nftDnatPriority } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import type { NftTableFacts } from './facts.ts';
import { type HookName, meetNft } from './meetings.ts';
import { forwardedPacket } from './packet.fixture.ts';

const match = (left: object, right: unknown, op = '=='): object => ({ match: { op, left, right } });
const payload = (protocol: string, field: string): object => ({ payload: { protocol, field } });
const fib = (...flags: readonly string[]): object => ({ fib: { result: 'type', flags } });
const drop = { drop: null };

const chain = (name: string, base: object, rules: readonly (readonly object[])[]): NftTableFacts['objects'] => [
  { chain: { name, ...base } },
  ...rules.map((expr, index) => ({ rule: { chain: name, handle: index + 1, expr } })),
];

const table = (
  rules: readonly (readonly object[])[],
  base: object = {},
  more: NftTableFacts['objects'] = [],
): NftTableFacts => ({
  family: 'inet',
  name: 'fw',
  objects: [...chain('f', { type: 'filter', hook: 'forward', prio: 0, policy: 'accept', ...base }, rules), ...more],
});

const met = (of: NftTableFacts, hook: HookName = 'FORWARD', servicesAt?: number): readonly string[] =>
  meetNft([of], hook, forwardedPacket, { left: 1_000 }, servicesAt).map(
    ({ kind, isCertain }) => `${isCertain ? '' : 'perhaps '}${kind}`,
  );

test.each<[string, NftTableFacts, readonly string[]]>([
  [
    'its port in a set',
    table([[match(payload('tcp', 'dport'), { set: [22, { range: [8000, 9000] }] }), drop]]),
    ['drop'],
  ],
  ['another port', table([[match(payload('tcp', 'dport'), 22), drop]]), []],
  [
    'its network',
    table([[match(payload('ip', 'daddr'), { prefix: { addr: '10.244.0.0', len: 16 } }), drop]]),
    ['drop'],
  ],
  [
    'all but its network',
    table([[match(payload('ip', 'daddr'), { prefix: { addr: '10.244.0.0', len: 16 } }, '!='), drop]]),
    [],
  ],
  ['all of IPv6 but one', table([[match(payload('ip6', 'daddr'), '::1', '!='), drop]]), []],
  ['all of UDP but one port', table([[match(payload('udp', 'dport'), 53, '!='), drop]]), []],
  [
    'all but a range of protocols, by names',
    table([[match({ meta: { key: 'l4proto' } }, { range: ['tcp', 'udp'] }, '!='), drop]]),
    ['perhaps drop'],
  ],
  ['a rule for IPv6', table([[match(payload('ip6', 'daddr'), '::1'), drop]]), []],
  ['a named set, which is not read', table([[match(payload('ip', 'daddr'), '@blocked'), drop]]), ['perhaps drop']],
  ['a translated connection', table([[match({ ct: { key: 'status' } }, 'dnat', 'in'), { accept: null }], [drop]]), []],
  ['an interface with a wildcard', table([[match({ meta: { key: 'iifname' } }, 'cali*'), drop]]), ['drop']],
  [
    'a packet that is not tracked, and goes on',
    table([[{ notrack: null }], [drop]], { prio: -300 }),
    ['notrack', 'drop'],
  ],
  ['notrack behind connection tracking', table([[{ notrack: null }]]), []],
  ...(['icmp', 'icmpv6', 'igmp', 'esp', 'ah'] as const).map((protocol): [string, NftTableFacts, readonly string[]] => [
    `a test of ${protocol} before a policy`,
    table([[match(payload(protocol, 'type'), 8), { accept: null }]], { policy: 'drop' }),
    ['drop'],
  ]),
  ['all but a type of ICMP', table([[match(payload('icmp', 'type'), 8, '!='), drop]]), []],
  ['a type of address', table([[match(fib('daddr'), 'unicast'), drop]]), ['drop']],
  ['a type of another address', table([[match(fib('daddr'), 'local'), drop]]), []],
  ['a type of address on the interface, which it has not', table([[match(fib('daddr', 'iif'), 'local'), drop]]), []],
  ['a rate', table([[{ limit: { rate: 10 } }, drop]]), ['perhaps drop']],
  ['a policy', table([], { policy: 'drop' }), ['drop']],
  ['a policy after a verdict map', table([[{ vmap: {} }]], { policy: 'drop' }), ['perhaps drop']],
  [
    'a verdict map of states, which firewalls begin with',
    table([
      [
        {
          vmap: {
            key: { ct: { key: 'state' } },
            data: {
              set: [
                ['established', { accept: null }],
                ['invalid', drop],
              ],
            },
          },
        },
      ],
      [drop],
    ]),
    ['drop'],
  ],
  [
    'a verdict map that accepts its port',
    table([[{ vmap: { key: payload('tcp', 'dport'), data: { set: [[8080, { accept: null }]] } } }], [drop]]),
    [],
  ],
  [
    'a verdict map by chance, of which one element drops',
    table([[{ vmap: { key: { numgen: { mode: 'random', mod: 2 } }, data: { set: [[0, drop]] } } }]], {
      policy: 'drop',
    }),
    ['perhaps drop', 'perhaps drop'],
  ],
  [
    'a named set that was read',
    table([[match(payload('ip', 'daddr'), '@blocked'), drop]], {}, [
      { set: { name: 'blocked', elem: ['10.244.2.6'] } },
    ]),
    ['drop'],
  ],
  [
    'a named set that packets fill',
    table([[match(payload('ip', 'daddr'), '@seen'), drop]], {}, [
      { set: { name: 'seen', elem: ['10.244.2.6'], flags: ['dynamic'] } },
    ]),
    ['perhaps drop'],
  ],
  ['a mark, which is not known', table([[match({ meta: { key: 'mark' } }, 1), drop]]), ['perhaps drop']],
  [
    'a mark that is set, and goes on',
    table([[{ mangle: { key: { meta: { key: 'mark' } }, value: 1 } }], [drop]]),
    ['drop'],
  ],
  ['a queue, behind which nothing is known', table([[{ queue: null }], [drop]]), ['perhaps drop']],
  [
    'a chain that accepts',
    table([[{ jump: { target: 'ok' } }]], { policy: 'drop' }, chain('ok', {}, [[{ accept: null }]])),
    [],
  ],
])('judges %s', (_title, given, expected) => {
  expect(met(given)).toEqual(expected);
});

test.each([
  [-150, undefined, ['translate']],
  [-100, undefined, ['perhaps translate']],
  [-90, undefined, []],
  [-102, nftDnatPriority, ['translate']],
  [-101, nftDnatPriority, ['perhaps translate']],
  [-100, nftDnatPriority, []],
])('a translation at priority %i comes before that of Services (at %s) or not', (priority, servicesAt, expected) => {
  const of = table([[{ dnat: { addr: '192.0.2.1' } }]], { type: 'nat', hook: 'prerouting', prio: priority });
  expect(met(of, 'PREROUTING', servicesAt)).toEqual(expected);
});

test('a rule with a large set is charged by its elements, and a chain with further rules has no known end', () => {
  const set = Array.from({ length: 500 }, (_, at) => ({ prefix: { addr: `192.0.${at % 256}.0`, len: 24 } }));
  const of = table([[match(payload('ip', 'daddr'), { set }), drop]], { policy: 'drop' });
  const effort = { left: 1_000 };
  expect(meetNft([of], 'FORWARD', forwardedPacket, effort)).toMatchObject([{ kind: 'drop', isCertain: true }]);
  expect(effort.left).toBe(499);
  expect(meetNft([of], 'FORWARD', forwardedPacket, { left: 400 })).toMatchObject([{ kind: 'drop', isCertain: false }]);
  const cut = { ...of, cut: ['f'] };
  expect(meetNft([cut], 'FORWARD', forwardedPacket, { left: 1_000 })).toMatchObject([
    { kind: 'drop', isCertain: false },
  ]);
});

test('a redirect translates, though its target is not read', () => {
  const of = table([[{ redirect: { port: 3128 } }]], { type: 'nat', hook: 'prerouting', prio: -110 });
  expect(met(of, 'PREROUTING')).toEqual(['translate']);
});

test.each<[string, object, readonly string[]]>([
  ["accepts the node's own packets", match({ meta: { key: 'iifname' } }, 'lo'), ['drop']],
  ['accepts those of a set with lo alone', match({ meta: { key: 'iif' } }, { set: ['lo'] }), ['drop']],
  ["accepts all but the node's own", match({ meta: { key: 'iifname' } }, 'lo', '!='), []],
  ['accepts what comes by eth1', match({ meta: { key: 'iifname' } }, 'eth1'), ['perhaps drop']],
  ['accepts what comes by lo or eth1', match({ meta: { key: 'iifname' } }, { set: ['lo', 'eth1'] }), ['perhaps drop']],
])('a packet by an unknown wire, where a chain %s before its policy', (_title, condition, expected) => {
  const of = table([[condition, { accept: null }]], { policy: 'drop' });
  const found = meetNft([of], 'FORWARD', { ...forwardedPacket, in: undefined }, { left: 1_000 });
  expect(found.map(({ kind, isCertain }) => `${isCertain ? '' : 'perhaps '}${kind}`)).toEqual(expected);
});
