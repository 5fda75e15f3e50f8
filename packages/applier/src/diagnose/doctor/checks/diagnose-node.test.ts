import { emptyNft, type ProblemCode } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { diagnoseNode, unsent } from './diagnose-node.ts';
import type { Facts } from '../facts.ts';
import { about, causeOf, conntrack, frontend, healthy, sysctls } from './healthy.fixture.ts';

const connections = (answered: number, silent: number): Partial<Facts> =>
  conntrack({ endpoints: new Map([['10.244.2.6:8080 tcp', { answered, silent, masqueraded: 0 }]]) });
const masqueraded = (count: number): Partial<Facts> =>
  conntrack({ endpoints: new Map([['10.244.2.6:8080 tcp', { answered: count, silent: 0, masqueraded: count }]]) });
const modules = (release: string, ...installed: readonly string[]): Partial<Facts> => ({
  modules: { release, installed },
});
/** The asked Service is in quarantine.yaml, and nowhere else. */
const warned = (code: ProblemCode): Partial<Facts> => ({
  sluiced: { ...healthy.sluiced, releaseWarnings: [{ code, level: 'warning', message: 'why', hint: 'what to do' }] },
});
const declined = (which: string): Partial<Facts> => ({
  sluiced: { ...healthy.sluiced, liveNote: `live endpoints are not taken of ${which}` },
});
const leftOut = (code: string): Partial<Facts> => ({
  sluiced: {
    ...healthy.sluiced,
    leftOut: new Map([['shop/web', { directory: '/var/lib/sluice/bundle', codes: [code] }]]),
  },
  desired: { ...(healthy.desired as NonNullable<Facts['desired']>), frontends: [] },
});
const dropped = 'certain FOREIGN_DROP';
const traceOf = (trace: readonly string[]): Partial<Facts> => ({
  live: { answers: new Map([['10.96.0.10:80', 'silent']]), trace, traced: '10.96.0.10:80' },
});
/** The last lines of `nft monitor trace`. */
const traced = (last: string): Partial<Facts> =>
  traceOf([`trace id a0b1 ip nat OUTPUT packet: oif "lo"`, `trace id a0b1 ${last}`]);
/** Lines of the kernel's log, on a node whose own rules are in store legacy. */
const logged = (...places: readonly string[]): Partial<Facts> => ({
  ...loggedBesides(...places),
  desired: { ...(healthy.desired as NonNullable<Facts['desired']>), mode: 'iptables', store: 'legacy' },
});
/** The same where only others have rules in store legacy. */
const loggedBesides = (...places: readonly string[]): Partial<Facts> =>
  traceOf(places.map((place) => `TRACE: ${place} IN= OUT=eth0 SRC=192.0.2.11 DST=10.96.0.10 SPT=5 DPT=80 `));
/** Rules of OUTPUT in the legacy table filter, which ask for marks or do not drop; and its policy, which packets with a mark do not meet. */
const legacyOutput = (...rules: readonly string[]): Partial<Facts> => ({
  tables: [
    {
      store: 'legacy',
      family: 'ipv4',
      table: 'filter',
      chains: new Map([['OUTPUT', { policy: 'DROP', rules: rules.map((rule) => `-A OUTPUT ${rule}`) }]]),
    },
  ],
});
/** A table of iptables in which another program has a base chain. */
const hiddenFilter: Partial<Facts> = {
  desired: { ...(healthy.desired as NonNullable<Facts['desired']>), mode: 'iptables', store: 'nft' },
  differences: ['ipv4 filter: 21 lines (filter changes, nat stays)'],
  nftTables: [{ family: 'ip', name: 'filter', objects: [{ chain: { name: 'forward', hook: 'forward', prio: 5 } }] }],
};
/** Another Service with the cluster IP and port. */
const shared = (service: string): Partial<Facts> => {
  const desired = healthy.desired as NonNullable<Facts['desired']>;
  return { desired: { ...desired, frontends: [...desired.frontends, frontend({ kind: 'cluster', service })] } };
};
/** The endpoint is behind bridge cni0. */
const bridged = (isHairpin: boolean): Partial<Facts> => ({
  ...sysctls('net/bridge/bridge-nf-call-iptables', '1'),
  routes: [{ to: '10.244.2.6', dev: 'cni0', isLocal: false }],
  interfaces: [
    ...(healthy.interfaces ?? []),
    { name: 'cni0', isUp: true, mtu: 1500, kind: 'bridge', addresses: ['10.244.2.1'] },
    { name: 'veth7', isUp: true, mtu: 1500, kind: 'veth', addresses: [], bridge: { name: 'cni0', isHairpin } },
  ],
});
const neighbours = (entries: number, fulls: number): Partial<Facts> => ({
  neighbours: [{ family: 'ipv4', entries, max: 1024, fulls }],
});
const counted = (change: Partial<NonNullable<Facts['counters']>>): Partial<Facts> => ({
  counters: { ...(healthy.counters as NonNullable<Facts['counters']>), ...change },
});
const disk = (change: object): Partial<Facts> => ({
  disk: { ...(healthy.disk as NonNullable<Facts['disk']>), ...change },
});

test.each<[string, Partial<Facts>, string]>([
  ['a healthy node', {}, ''],
  [
    'facts that were not read',
    { sysctls: undefined, conntrack: undefined, routes: undefined, tables: undefined } as unknown as Partial<Facts>,
    '',
  ],
  [
    'a halted node, whatever else is wrong',
    { sluiced: { ...healthy.sluiced, halted: 'no rollback' }, differences: ['x'] },
    'certain NODE_HALTED',
  ],
  ['lost rules', { differences: ['load table inet sluice'] }, 'certain RULES_DIFFER'],
  ['differences during a change', { sluiced: { ...healthy.sluiced, open: 'def' }, differences: ['x'] }, ''],
  [
    'a changed sysctl',
    { differences: ['sysctl net.ipv4.conf.all.route_localnet = 1 (it is 0)'] },
    'certain SYSCTL_DIFFERS',
  ],
  ['no forwarding', sysctls('net/ipv4/ip_forward', '0'), 'certain FORWARDING_OFF'],
  [
    'no forwarding on an interface that is used',
    sysctls('net/ipv4/conf/eth0/forwarding', '0'),
    'certain FORWARDING_OFF',
  ],
  ['no forwarding on another interface', sysctls('net/ipv4/conf/wlan0/forwarding', '0'), ''],
  ['no IPv6 beside a Service of IPv4', sysctls('net/ipv6/conf/all/disable_ipv6', '1'), ''],
  ['a table of connections that is 94 % full', conntrack({ count: 949 }), ''],
  ['a table of connections that is 95 % full', conntrack({ count: 950 }), 'certain CONNTRACK_FULL'],
  ['an endpoint with one connection without reply', connections(0, 1), ''],
  ['modules of another kernel alone', modules('6.12.48', '6.12.63'), 'likely MODULES_OF_OTHER_KERNEL'],
  ['modules of this kernel and an older one', modules('6.12.48', '6.12.43', '6.12.48'), ''],
  ['a Service whose addresses another one has', leftOut('VIP_CONFLICT'), 'certain ADDRESS_SHARED'],
  ['a Service that cannot be rendered', leftOut('FIELD_INVALID'), 'certain SERVICE_LEFT_OUT'],
  ['a Service of the cluster that its release lacks', leftOut('RELEASE_WITHOUT_SERVICE'), 'certain SERVICE_LEFT_OUT'],
  ['a Service whose live endpoints are not taken', declined('shop/api: a; shop/web: b'), 'likely SERVICE_LEFT_OUT'],
  ['live endpoints of another Service that are not taken', declined('shop/web-api: a; other-shop/web: b'), ''],
  ['an active release past its time', warned('RELEASE_EXPIRED'), 'likely RELEASE_EXPIRED'],
  ['an active release whose key has ended', warned('RELEASE_SIGNERS_CHANGED'), 'likely RELEASE_SIGNERS_CHANGED'],
  ['a release that waits for its wave', warned('RELEASE_WAITS'), ''],
  ['a rule of nftables that ends a trace', traced('inet fw out rule meta mark 0x1 drop (verdict drop)'), dropped],
  ['a policy of nftables that ends a trace', traced('ip filter OUTPUT policy drop'), dropped],
  ["a rule of Sluice's that ends a trace", traced('inet sluice services4 rule drop (verdict drop)'), ''],
  ['a trace that a rule does not end', traced('inet fw out rule counter (verdict continue)'), ''],
  ['a rule of store legacy that ends a trace', logged('raw:OUTPUT:policy:2', 'filter:OUTPUT:rule:1'), dropped],
  ['a trace of store legacy to the end', logged('filter:OUTPUT:rule:1', 'nat:POSTROUTING:policy:2'), ''],
  ['a trace of a legacy table, without one after it', loggedBesides('raw:OUTPUT:rule:1', 'filter:OUTPUT:policy:1'), ''],
  ['a trace that misses the last table', loggedBesides('mangle:OUTPUT:policy:1', 'filter:OUTPUT:rule:1'), dropped],
  [
    'a trace of a legacy table alone, whose rule drops',
    { ...loggedBesides('filter:OUTPUT:rule:2'), ...legacyOutput('-j LOG', '-m mark --mark 0x1 -j DROP') },
    dropped,
  ],
  [
    'a trace of a legacy table alone, whose rule accepts',
    { ...loggedBesides('filter:OUTPUT:rule:2'), ...legacyOutput('-j DROP', '-m mark --mark 0x1 -j ACCEPT') },
    '',
  ],
  [
    'a trace of a legacy table alone, to a policy that drops',
    { ...loggedBesides('filter:OUTPUT:policy:2'), ...legacyOutput('-m mark --mark 0x1 -j ACCEPT') },
    dropped,
  ],
  ['rules of which iptables prints nothing, beside a chain of nftables', hiddenFilter, 'likely TABLE_NOT_PRINTED'],
  [
    'rules that differ besides',
    { ...hiddenFilter, differences: ['ipv4 filter: 21 lines', 'ipv4 nat: 1 line'] },
    'certain RULES_DIFFER',
  ],
  [
    'rules that differ in a table that iptables prints',
    { ...hiddenFilter, tables: legacyOutput().tables?.map((one) => ({ ...one, store: 'nft' as const })) ?? [] },
    'certain RULES_DIFFER',
  ],
  ["a trace of store legacy that ends in Sluice's chain", logged('filter:SLUICE-SERVICES:rule:1'), ''],
  ['an endpoint that never replies', connections(0, 2), 'likely ENDPOINT_SILENT'],
  ['an endpoint that replies to some', connections(1, 20), ''],
  [
    'an endpoint that replies, by a connection of the doctor',
    { ...connections(0, 9), live: { answers: new Map([['10.244.2.6:8080', 'answered']]), trace: [] } },
    '',
  ],
  [
    'an endpoint that refuses',
    { live: { answers: new Map([['10.244.2.6:8080', 'refused']]), trace: [] } },
    'certain ENDPOINT_REFUSES',
  ],
  ['61,286 masqueraded connections to an endpoint', masqueraded(61_286), ''],
  ['more than 95 % of 64,512 ports', masqueraded(61_287), 'certain MASQUERADE_PORTS_EXHAUSTED'],
  ['a neighbour table that was full some day', neighbours(100, 1), ''],
  ['a neighbour table that is nearly full and never was', neighbours(1000, 0), ''],
  ['a neighbour table that is full', neighbours(1000, 1), 'certain NEIGHBOUR_TABLE_FULL'],
  ['an address of two Services', shared('shop/web-2:http'), 'certain ADDRESS_SHARED'],
  ['an address of two ports of one Service', shared('shop/web:admin'), ''],
  [
    'an nft that cannot write',
    { cannotWrite: '/usr/sbin/nft crashed. Install a newer nft' },
    'likely TOOL_CANNOT_WRITE',
  ],
  ['a bridge without hairpin mode', bridged(false), 'likely HAIRPIN_OFF'],
  ['a bridge with hairpin mode', bridged(true), ''],
  ['a bridge whose packets iptables does not see', { ...bridged(false), sysctls: healthy.sysctls ?? new Map() }, ''],
  ['a bridge that no endpoint is behind', { ...bridged(false), routes: healthy.routes ?? [] }, ''],
  ['dropped packets of another interface, by a loose filter', counted({ reversePathFilter: 5000 }), ''],
  [
    'a strict filter that drops a few of a million packets',
    { ...counted({ reversePathFilter: 999 }), ...sysctls('net/ipv4/conf/all/rp_filter', '1') },
    '',
  ],
  [
    'a strict filter that drops many',
    { ...counted({ reversePathFilter: 1000 }), ...sysctls('net/ipv4/conf/all/rp_filter', '1') },
    'likely REVERSE_PATH_FILTER',
  ],
  [
    'source ports among node ports',
    sysctls('net/ipv4/ip_local_port_range', '1024 65000'),
    'likely PORT_RANGE_OVERLAPS',
  ],
  [
    'source ports among node ports that are reserved',
    {
      sysctls: new Map([
        ...(healthy.sysctls ?? []),
        ['net/ipv4/ip_local_port_range', '1024 65000'],
        ['net/ipv4/ip_local_reserved_ports', '22,30000-32767'],
      ]),
    },
    '',
  ],
  [
    'a listener on the node port',
    { listeners: [{ protocol: 'tcp', address: '*', port: 30_080, program: 'x' }] },
    'likely LISTENER_ON_NODE_PORT',
  ],
  [
    'a listener of another protocol',
    { listeners: [{ protocol: 'udp', address: '*', port: 30_080, program: 'x' }] },
    '',
  ],
  ['a next hop that fails', { failedNeighbours: ['192.0.2.1'] }, 'certain NEIGHBOUR_FAILED'],
  ['another next hop that fails', { failedNeighbours: ['192.0.2.2'] }, ''],
  [
    'an endpoint without a route',
    { routes: [{ to: '10.244.2.6', isLocal: false, why: 'unreachable' }] },
    'certain NO_ROUTE',
  ],
  [
    'a cluster IP on an interface',
    { interfaces: [{ name: 'lo', isUp: true, mtu: 65_536, kind: '', addresses: ['10.96.0.10', '192.0.2.11'] }] },
    'certain ADDRESS_ON_INTERFACE',
  ],
  [
    'another address than the bundle says',
    { interfaces: [{ name: 'eth0', isUp: true, mtu: 1500, kind: '', addresses: ['192.0.2.99'] }] },
    'certain NODE_ADDRESS_MISSING',
  ],
  ['a disk with 16 MiB', disk({ freeBytes: 16 * 2 ** 20 }), ''],
  ['a disk with less', disk({ freeBytes: 16 * 2 ** 20 - 1 }), 'certain DISK_FULL'],
  ['a disk that does not count inodes', disk({ inodes: 0, freeInodes: 0 }), ''],
  ['a clock five minutes behind', { clock: { nowMs: 0, stateMs: 300_000 } }, ''],
  ['a clock further behind', { clock: { nowMs: 0, stateMs: 300_001 } }, 'certain CLOCK_WRONG'],
  ['a kube-proxy', { kubeProxies: [7] }, 'certain KUBE_PROXY_RUNNING'],
  [
    'stale connections',
    conntrack({
      stale: [{ family: 'ipv4', protocol: 'udp', address: '10.96.0.10', port: 53, endpoint: '10.244.9.9:53' }],
    }),
    '',
  ],
])('%s', (_title, change, expected) => {
  expect(causeOf(change)).toBe(expected);
});

test('without a Service in question, common settings are notes', () => {
  const { cause, notes } = diagnoseNode(
    { kind: 'all' },
    { ...healthy, ...sysctls('net/ipv4/ip_local_port_range', '1024 65000') },
  );
  expect(cause).toBeUndefined();
  expect(notes.map(({ code }) => code)).toEqual(['PORT_RANGE_OVERLAPS']);
});

test.each<[string, Partial<Facts>, string]>([
  ['a table', { nftTables: [{ family: 'ip', name: 'kube-proxy', objects: [] }] }, 'nft delete table ip kube-proxy'],
  [
    'an interface',
    { interfaces: [{ name: 'kube-ipvs0', isUp: false, mtu: 1500, kind: '', addresses: [] }] },
    'ip link delete kube-ipvs0',
  ],
  [
    'a jump',
    {
      tables: [
        {
          store: 'nft',
          family: 'ipv6',
          table: 'nat',
          chains: new Map([
            ['OUTPUT', { policy: 'ACCEPT', rules: ['-A OUTPUT -m comment --comment "a $(b)" -j KUBE-SERVICES'] }],
            ['KUBE-SERVICES', { policy: '-', rules: ['-A KUBE-SERVICES -j KUBE-SVC-X'] }],
          ]),
        },
      ],
    },
    "ip6tables-nft -t nat -D OUTPUT -m comment --comment 'a $(b)' -j KUBE-SERVICES",
  ],
])('the command against %s of a former kube-proxy touches nothing of Sluice', (_title, left, fix) => {
  const { cause, others } = diagnoseNode({ kind: 'all' }, { ...healthy, ...left });
  const found = [cause, ...others].find((one) => one?.code === 'KUBE_PROXY_LEFTOVERS');
  expect(found?.fix).toBe(fix);
});

test.each([
  ['sluiced itself on ::1', 'localhost-served localhost-listener', '[::1]', true, undefined],
  ['another program on ::1 while sluiced is stopped', 'localhost-served localhost-listener', '[::1]', false, 'likely'],
  ['a program on ::1 that the rules keep clients from', 'localhost-refused', '[::1]', true, 'likely'],
  ['a program on ::1, which no rule meets', '', '[::1]', true, undefined],
  ['a program on all addresses', 'localhost-served localhost-listener', '*', true, 'likely'],
] as const)('a listener on a node port: %s', (_title, table, address, isDaemonRunning, certainty) => {
  const desired = healthy.desired as NonNullable<Facts['desired']>;
  const nft = { ...emptyNft, settings: [`table 4 address ${table}`] };
  const port = frontend({
    family: 'ipv6',
    address: undefined,
    port: 30_080,
    endpoints: [{ text: '[fd00::7]:80', weight: 1 }],
  });
  const { cause, others } = diagnoseNode(about, {
    ...healthy,
    sluiced: { ...healthy.sluiced, isDaemonRunning },
    desired: { ...desired, frontends: [port], state: { ...desired.state, nft } },
    listeners: [{ protocol: 'tcp', address, port: 30_080, program: 'x' }],
  });
  const found = [cause, ...others].find((one) => one?.code === 'LISTENER_ON_NODE_PORT');
  expect(found?.certainty).toBe(certainty);
});

test('says that no node port is on localhost to an operator who asks for one there', () => {
  const desired = healthy.desired as NonNullable<Facts['desired']>;
  const nft = { ...emptyNft, settings: ['table 4 address localhost-refused'] };
  const { cause } = diagnoseNode(
    { kind: 'address', address: '127.0.0.1', port: 30_080 },
    {
      ...healthy,
      interfaces: [{ name: 'lo', isUp: true, mtu: 65_536, kind: '', addresses: ['127.0.0.1', '192.0.2.11'] }],
      desired: { ...desired, state: { ...desired.state, nft } },
    },
  );
  expect(cause).toMatchObject({ code: 'SERVICE_UNKNOWN' });
  expect(cause?.evidence).toEqual([
    'the active generation has 2 frontends, and none is 127.0.0.1:30080',
    'shop/web:http answers on node port 30080/tcp',
    'on 127.0.0.1 the rules reject node ports (nodePortAddresses)',
  ]);
});

test('a Service that no bundle has may be left out on purpose, which objects tell', () => {
  const { cause } = diagnoseNode({ kind: 'service', service: 'shop/wbe' }, healthy);
  expect(cause).toMatchObject({ code: 'SERVICE_UNKNOWN', certainty: 'certain' });
  expect(cause?.evidence).toContain('it has shop/web');
  expect(cause?.evidence.at(-1)).toMatch(/headless .* are left out on purpose: sluice doctor shop\/wbe tells$/);
});

test('many ports of a bridge without hairpin mode are one finding, with one command for all of them', () => {
  const [port] = (bridged(false).interfaces ?? []).filter(({ bridge }) => bridge !== undefined);
  const many = [
    ...(healthy.interfaces ?? []),
    ...Array.from({ length: 110 }, (_, n) => ({ ...port!, name: `veth${n}` })),
  ];
  const { cause, others, notes } = diagnoseNode(about, { ...healthy, ...bridged(false), interfaces: many });
  expect({ port: cause?.about, fix: cause?.fix, more: [...others, ...notes] }).toEqual({
    port: port!.bridge!.name,
    fix: expect.stringMatching(/^for port in .*; do ip link set .* hairpin on; done$/),
    more: [],
  });
  expect(cause?.evidence).toEqual([expect.stringMatching(/^veth0, veth1, veth2, veth3, veth4, … are 110 ports of /)]);
});

test('without a cause the doctor says what it did not see, and how to', () => {
  const found = diagnoseNode(about, healthy);
  expect(unsent(about, found, healthy)).toMatchObject({ because: expect.stringContaining('shop/web --live') });
  expect(unsent(about, found, { live: { answers: new Map(), trace: [] } })).toBeNull();
  expect(unsent(about, diagnoseNode(about, { ...healthy, ...bridged(false) }), healthy)).toBeNull();
});
