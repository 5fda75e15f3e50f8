import { expect, test } from 'vitest';
import { emptyProgram } from '../link/program.ts';
import type { Packet } from '../packet/packet.ts';
import { summarise, trace } from '../trace/trace.ts';
import { type ListedTable, placesInTable, readLiveTable } from './nft.ts';
import { traceNotes } from './rule.ts';
import { LiveTables } from './tables.ts';

const field = (name: string): object => ({ payload: { protocol: name === 'dport' ? 'th' : 'ip', field: name } });
const l4 = { meta: { key: 'l4proto' } };
const place = { concat: [field('daddr'), l4, field('dport')] };
const rule = (chain: string, ...expr: readonly object[]): object => ({ rule: { chain, expr } });
const match = (left: object, right: unknown, op = '=='): object => ({ match: { op, left, right } });
const mark = { mangle: { key: { meta: { key: 'mark' } }, value: { '|': [{ meta: { key: 'mark' } }, 0x4000] } } };
const choice = (...endpoints: readonly string[]): object => ({
  dnat: {
    family: 'ip',
    addr: {
      map: {
        key: { numgen: { mode: 'random', mod: endpoints.length, offset: 0 } },
        data: { set: endpoints.map((address, n) => [n, { concat: [address, 8080] }]) },
      },
    },
  },
});

/** What kube-proxy 1.37 writes, as nft 1.0.6 lists it. */
const objects: readonly object[] = [
  { chain: { name: 'pre', type: 'filter', hook: 'prerouting', prio: -110, policy: 'accept' } },
  { chain: { name: 'nat-prerouting', type: 'nat', hook: 'prerouting', prio: -100, policy: 'accept' } },
  { chain: { name: 'forward', type: 'filter', hook: 'forward', prio: 0, policy: 'accept' } },
  { chain: { name: 'nat-postrouting', type: 'nat', hook: 'postrouting', prio: 100, policy: 'accept' } },
  ...['services', 'web', 'sticky', 'end', 'fw', 'checks', 'reject-chain'].map((name) => ({ chain: { name } })),
  { set: { name: 'cluster-ips', type: 'ipv4_addr', elem: ['10.96.0.10', '10.96.0.12'] } },
  { set: { name: 'affinity-end', type: 'ipv4_addr', flags: ['timeout'], timeout: 600 } },
  {
    map: {
      name: 'service-ips',
      map: 'verdict',
      elem: [
        [{ concat: ['10.96.0.10', 'tcp', 80] }, { goto: { target: 'web' } }],
        [{ concat: ['10.96.0.12', 'tcp', 80] }, { goto: { target: 'sticky' } }],
        [{ concat: ['198.51.100.13', 'tcp', 80] }, { goto: { target: 'web' } }],
      ],
    },
  },
  {
    map: {
      name: 'firewall-ips',
      map: 'verdict',
      elem: [[{ concat: ['198.51.100.13', 'tcp', 80] }, { goto: { target: 'fw' } }]],
    },
  },
  {
    map: {
      name: 'no-endpoint-services',
      map: 'verdict',
      elem: [
        [
          { elem: { val: { concat: ['10.96.0.14', 'tcp', 80] }, comment: 'shop/gone:http' } },
          { goto: { target: 'reject-chain' } },
        ],
      ],
    },
  },
  rule('pre', match({ ct: { key: 'state' } }, 'new', 'in'), { vmap: { key: place, data: '@firewall-ips' } }),
  rule('nat-prerouting', { jump: { target: 'services' } }),
  rule(
    'services',
    match(field('daddr'), '@cluster-ips'),
    match(field('saddr'), { prefix: { addr: '10.244.0.0', len: 16 } }, '!='),
    mark,
  ),
  rule('services', { vmap: { key: place, data: '@service-ips' } }),
  rule('web', match(l4, 'tcp'), choice('10.244.1.5', '10.244.2.7', '10.244.3.3')),
  rule('sticky', match(field('saddr'), '@affinity-end'), { goto: { target: 'end' } }),
  rule('sticky', {
    vmap: { key: { numgen: { mode: 'random', mod: 1, offset: 0 } }, data: { set: [[0, { goto: { target: 'end' } }]] } },
  }),
  rule('end', { set: { op: 'update', elem: field('saddr'), set: '@affinity-end' } }),
  rule('end', match(l4, 'tcp'), { dnat: { addr: '10.244.1.6', port: 8080 } }),
  rule('fw', match(field('saddr'), { set: [{ prefix: { addr: '203.0.113.0', len: 24 } }, '198.51.100.13'] }, '!='), {
    drop: null,
  }),
  rule('forward', { jump: { target: 'checks' } }),
  rule('checks', { vmap: { key: place, data: '@no-endpoint-services' } }),
  rule('checks', match(field('daddr'), '@cluster-ips'), { reject: { type: 'icmp', expr: 'port-unreachable' } }),
  rule('reject-chain', { reject: { type: 'icmp', expr: 'port-unreachable' } }),
  rule('nat-postrouting', match({ '&': [{ meta: { key: 'mark' } }, 0x4000] }, 0, '!='), {
    masquerade: { flags: 'fully-random' },
  }),
];
const kubeProxy: ListedTable = { family: 'ip', name: 'kube-proxy', objects: objects as ListedTable['objects'] };
const packet: Packet = {
  family: 'ipv4',
  source: '10.244.1.9',
  destination: '10.96.0.10',
  protocol: 'tcp',
  port: 80,
  in: 'pod0',
};

function traced(change: Partial<Packet>, others: readonly ListedTable[] = []) {
  const tables = new LiveTables('ipv4', [kubeProxy, ...others].map(readLiveTable));
  const notes = traceNotes();
  const outcomes = trace(
    emptyProgram,
    { ...packet, ...change },
    { localAddresses: ['192.0.2.11'], live: { tables, notes } },
  );
  return { outcomes, text: summarise(outcomes), notes };
}

const all = 'dnat 10.244.1.5:8080 | 10.244.2.7:8080 | 10.244.3.3:8080';
const client = { source: '198.51.100.7', in: 'eth0' } as const;

test.each<[string, Partial<Packet>, string]>([
  ['a pod reaches each endpoint', {}, all],
  ['a client is masqueraded at a ClusterIP', client, `masquerade ${all}`],
  ['a client within the source ranges', { ...client, source: '203.0.113.7', destination: '198.51.100.13' }, all],
  ['a client outside of them', { ...client, destination: '198.51.100.13' }, 'drop'],
  ['a Service without endpoints', { destination: '10.96.0.14' }, 'reject'],
  ['another port of a ClusterIP', { port: 81 }, 'reject'],
  ['another protocol of a ClusterIP', { protocol: 'udp' }, 'reject'],
  ['an address of no Service', { destination: '10.96.0.99' }, 'pass'],
])('%s', (_title, change, summary) => {
  const { text, notes } = traced(change);
  expect(text).toBe(summary);
  expect([...notes.doubts.keys()]).toEqual([]);
});

test('a nat chain with a lower priority does not translate before a filter chain drops', () => {
  const lower = kubeProxy.objects.map((object) => {
    const { chain } = object as { readonly chain?: { readonly type?: string } };
    return chain?.type === 'nat' ? { chain: { ...chain, prio: -170 } } : object;
  });
  const tables = new LiveTables('ipv4', [readLiveTable({ ...kubeProxy, objects: lower })]);
  const live = { tables, notes: traceNotes() };
  const outside = { ...packet, ...client, destination: '198.51.100.13' };
  expect(summarise(trace(emptyProgram, outside, { localAddresses: ['192.0.2.11'], live }))).toBe('drop');
});

test('endpoints have equal shares', () => {
  for (const { probability } of traced({}).outcomes) expect(probability).toBeCloseTo(1 / 3, 9);
});

test('affinity is in the path, with its time', () => {
  const to = { destination: '10.96.0.12' };
  expect(traced(to).outcomes[0]?.path.flatMap(({ recent }) => recent ?? [])).toEqual([
    { action: 'set', name: 'affinity-end' },
  ]);
  expect(traced({ ...to, remembers: 'affinity-end' }).outcomes[0]?.path.flatMap(({ recent }) => recent ?? [])).toEqual([
    { action: 'rcheck', name: 'affinity-end', seconds: 600 },
    { action: 'set', name: 'affinity-end' },
  ]);
});

const drop = { drop: null };
const other = (...rules: readonly object[]): ListedTable => ({
  family: 'inet',
  name: 'other',
  objects: [
    { chain: { name: 'fwd', type: 'filter', hook: 'forward', prio: -5, policy: 'accept' } },
    ...rules,
  ] as ListedTable['objects'],
});

test.each<[string, readonly object[], string]>([
  [
    'drops one endpoint',
    [rule('fwd', match(field('daddr'), '10.244.2.7'), { drop: null })],
    'dnat 10.244.1.5:8080 | 10.244.3.3:8080, drop',
  ],
  ['accepts, which ends its own chain alone', [rule('fwd', { accept: null })], all],
  [
    'asks for a range of ports',
    [
      rule('fwd', match({ payload: { protocol: 'tcp', field: 'dport' } }, { set: [{ range: [8000, 8100] }] }), {
        drop: null,
      }),
    ],
    'drop',
  ],
  [
    'asks for a port of another protocol, negated',
    [rule('fwd', match({ payload: { protocol: 'udp', field: 'dport' } }, 53, '!='), { drop: null })],
    all,
  ],
  [
    'asks for an address of the other family, negated',
    [rule('fwd', match({ payload: { protocol: 'ip6', field: 'saddr' } }, 'fd00::7', '!='), { drop: null })],
    all,
  ],
])('a foreign table that %s', (_title, rules, summary) => {
  expect(traced({}, [other(...rules)]).text).toBe(summary);
});

test.each<[string, number, string, string]>([
  ['before connections are tracked', -300, 'untracked', 'drop'],
  ['before them, where another rule drops NEW', -300, 'new', 'reject'],
  ['behind them, which does nothing', -150, 'untracked', all],
])('a foreign rule leaves packets untracked %s', (_title, prio, state, summary) => {
  const early = { chain: { name: 'raw', type: 'filter', hook: 'prerouting', prio, policy: 'accept' } };
  const rules = [
    early,
    rule('raw', { notrack: null }),
    rule('fwd', match({ ct: { key: 'state' } }, state, 'in'), drop),
  ];
  expect(traced({}, [other(...rules)]).text).toBe(summary);
});

test.each<[string, object, string]>([
  ['limits a rate', { limit: { rate: 1, per: 'second' } }, 'statement limit is not read'],
  [
    'asks for an unknown field',
    match({ payload: { protocol: 'ip', field: 'ttl' } }, 1),
    'test of {"payload":{"protocol":"ip","field":"ttl"}} is not read',
  ],
  [
    'asks for a network of marks',
    match({ meta: { key: 'mark' } }, { prefix: { addr: 0, len: 4 } }),
    'element 0/4 is not read',
  ],
  [
    'asks for a range of protocols',
    match({ meta: { key: 'l4proto' } }, { range: ['tcp', 'udp'] }),
    'element tcp-udp is not read',
  ],
  [
    'asks for a port by its name',
    match({ payload: { protocol: 'th', field: 'dport' } }, 'http'),
    'element http is not read',
  ],
  ['asks for a set that is not there', match(field('saddr'), '@gone'), 'set gone is not read'],
])('a foreign rule that %s is named', (_title, statement, why) => {
  const { notes } = traced({}, [other(rule('fwd', statement, { drop: null }))]);
  expect([...notes.doubts.values()]).toEqual([why]);
});

test('the frontends of the table are those of its maps', () => {
  expect(placesInTable(kubeProxy).toSorted()).toEqual([
    'tcp 10.96.0.10 80',
    'tcp 10.96.0.12 80',
    'tcp 10.96.0.14 80',
    'tcp 198.51.100.13 80',
  ]);
});

test('a set names the sources for one destination, not those that other elements have', () => {
  const elem = [
    [{ concat: ['10.96.0.10', { prefix: { addr: '192.0.2.0', len: 24 } }] }],
    [{ concat: ['10.96.0.12', { prefix: { addr: '198.51.100.0', len: 24 } }] }],
    [{ concat: [{ prefix: { addr: '10.96.0.8', len: 30 } }, { prefix: { addr: '203.0.113.0', len: 24 } }] }],
  ].flat();
  const listed = [
    { chain: { name: 'pre', type: 'filter', hook: 'prerouting', prio: -110, policy: 'accept' } },
    { set: { name: 'allowed', type: 'ipv4_addr', elem } },
    rule('pre', match({ concat: [field('daddr'), field('saddr')] }, '@allowed'), mark),
  ];
  const table = readLiveTable({ family: 'ip', name: 'kube-proxy', objects: listed as ListedTable['objects'] });
  const notes = traceNotes();
  const sent = { family: 'ipv4', source: '10.244.2.30', in: 'veth1', protocol: 'tcp', port: 80 } as const;
  const live = { tables: new LiveTables('ipv4', [table]), notes };
  trace(emptyProgram, { ...sent, destination: '10.96.0.10' }, { localAddresses: [], live });
  expect([...notes.networks]).toEqual(['192.0.2.0/24', '203.0.113.0/24']);
});
