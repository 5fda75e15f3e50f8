import { expect, test } from 'vitest';
import { emptyProgram } from '../link/program.ts';
import type { Packet } from '../packet/packet.ts';
import { summarise, trace } from '../trace/trace.ts';
import { readIptables } from './iptables.ts';
import { wordsOf } from './iptables-options.ts';
import { traceNotes } from './rule.ts';
import { readLiveSets } from './sets.ts';
import { LiveTables } from './tables.ts';

/** What kube-proxy writes for a Service with two endpoints, one of them here, and a table of foreign rules before and behind it. */
const saved = (rules: Readonly<Record<string, readonly string[]>> = {}, policy = 'ACCEPT'): readonly string[] => [
  '*raw',
  ':PREROUTING ACCEPT',
  ...(rules['raw'] ?? []),
  'COMMIT',
  '*mangle',
  ':PREROUTING ACCEPT',
  ':A -',
  ...(rules['mangle'] ?? []),
  'COMMIT',
  '*nat',
  ':PREROUTING ACCEPT',
  ':OUTPUT ACCEPT',
  ':POSTROUTING ACCEPT',
  ':KUBE-SERVICES -',
  ':KUBE-SVC-AAAAAAAAAAAAAAAA -',
  ':KUBE-SEP-AAAAAAAAAAAAAAAA -',
  ':KUBE-SEP-BBBBBBBBBBBBBBBB -',
  ':KUBE-MARK-MASQ -',
  ':KUBE-POSTROUTING -',
  ...(rules['nat'] ?? []),
  '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
  '-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
  '-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING',
  '-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA',
  ...Array.from({ length: 20 }, (_, n) => `-A KUBE-SERVICES -d 10.96.1.${n}/32 -p tcp -m tcp --dport 80 -j RETURN`),
  '-A KUBE-SVC-AAAAAAAAAAAAAAAA ! -s 10.244.0.0/16 -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-MARK-MASQ',
  '-A KUBE-SVC-AAAAAAAAAAAAAAAA -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-AAAAAAAAAAAAAAAA',
  '-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-BBBBBBBBBBBBBBBB',
  '-A KUBE-SEP-AAAAAAAAAAAAAAAA -s 10.244.1.5/32 -j KUBE-MARK-MASQ',
  '-A KUBE-SEP-AAAAAAAAAAAAAAAA -p tcp -m tcp -j DNAT --to-destination 10.244.1.5:8080',
  '-A KUBE-SEP-BBBBBBBBBBBBBBBB -p tcp -m tcp -j DNAT --to-destination 10.244.2.7:8080',
  '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000',
  '-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN',
  '-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0',
  '-A KUBE-POSTROUTING -j MASQUERADE --random-fully',
  'COMMIT',
  '*filter',
  ':INPUT ACCEPT',
  `:FORWARD ${policy}`,
  ':OUTPUT ACCEPT',
  ':cali-FORWARD -',
  ...(rules['filter'] ?? []),
  'COMMIT',
];

const packet: Packet = {
  family: 'ipv4',
  source: '10.244.1.9',
  destination: '10.96.0.10',
  protocol: 'tcp',
  port: 80,
  in: 'cali9',
};
const sets = ['create blocked hash:net family inet', 'add blocked 10.244.1.0/28', 'create odd list:set size 8'];

function traced(lines: readonly string[], change: Partial<Packet> = {}, base: Packet = packet) {
  const tables = new LiveTables('ipv4', readIptables({ store: 'nft', family: 'ipv4', lines }, readLiveSets(sets)));
  const notes = traceNotes();
  const outOf = (): string => 'eth0';
  const outcomes = trace(
    emptyProgram,
    { ...base, ...change },
    { localAddresses: ['192.0.2.11'], live: { tables, notes, outOf } },
  );
  return { text: summarise(outcomes), unread: [...notes.doubts].map(([{ text }, why]) => `${text}: ${why}`), notes };
}

const both = 'dnat 10.244.1.5:8080 | 10.244.2.7:8080';

test.each<[string, Readonly<Record<string, readonly string[]>>, Partial<Packet>, string]>([
  ['a pod reaches both endpoints', {}, {}, both],
  ['a client from outside is masqueraded', {}, { source: '198.51.100.7', in: 'eth0' }, `masquerade ${both}`],
  [
    'an endpoint is masqueraded on its way to itself',
    {},
    { source: '10.244.1.5' },
    'dnat 10.244.2.7:8080, masquerade dnat 10.244.1.5:8080',
  ],
  ['another port is no Service', {}, { port: 81 }, 'pass'],
  ['a drop before connections are tracked', { raw: ['-A PREROUTING -s 10.244.1.0/24 -j DROP'] }, {}, 'drop'],
  [
    'a drop by a mark of mangle',
    {
      mangle: ['-A PREROUTING -i cali+ -j A', '-A A -j MARK --set-xmark 0x1/0x1'],
      filter: ['-A FORWARD -m mark --mark 0x1/0x1 -j DROP'],
    },
    {},
    'drop',
  ],
  [
    'a foreign translation in front',
    { nat: ['-A PREROUTING -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 192.0.2.99:81'] },
    {},
    'dnat 192.0.2.99:81',
  ],
  ['a foreign accept in front', { nat: ['-A PREROUTING -s 10.244.0.0/16 -j ACCEPT'] }, {}, 'pass'],
  ['a drop for one endpoint', { filter: ['-A FORWARD -d 10.244.2.7/32 -j DROP'] }, {}, 'dnat 10.244.1.5:8080, drop'],
  [
    'a chain of another program that returns',
    { filter: ['-A FORWARD -j cali-FORWARD', '-A cali-FORWARD -p udp -j DROP', '-A FORWARD -j ACCEPT'] },
    {},
    both,
  ],
  ['a set that holds the source', { filter: ['-A FORWARD -m set --match-set blocked src -j DROP'] }, {}, 'drop'],
  [
    'a set that does not',
    { filter: ['-A FORWARD -m set --match-set blocked src -j DROP'] },
    { source: '10.244.1.77' },
    both,
  ],
  [
    'the leaving interface',
    { filter: ['-A FORWARD -o docker0 -j DROP', '-A FORWARD -o eth0 -p udp -j DROP'] },
    {},
    both,
  ],
  [
    'several ports',
    { filter: ['-A FORWARD -p tcp -m multiport --dports 443,8000:8100 -j REJECT --reject-with icmp-port-unreachable'] },
    {},
    'reject',
  ],
  [
    'a packet without connection tracking',
    { raw: ['-A PREROUTING -p tcp -m tcp --dport 80 -j CT --notrack'] },
    {},
    'pass',
  ],
  [
    'its state',
    {
      raw: ['-A PREROUTING -d 10.96.0.10/32 -j CT --notrack'],
      filter: ['-A FORWARD -m conntrack --ctstate UNTRACKED -j DROP'],
    },
    {},
    'drop',
  ],
  ['nat at its end', { nat: [':INPUT DROP'] }, { destination: '192.0.2.11' }, 'drop'],
  ['replies alone', { filter: ['-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j DROP'] }, {}, both],
  [
    'source NAT of another program',
    { nat: ['-A POSTROUTING -s 10.244.0.0/16 ! -d 10.244.0.0/16 -j MASQUERADE'] },
    {},
    both,
  ],
])('%s', (_title, rules, change, summary) => {
  const { text, unread } = traced(saved(rules), change);
  expect(text).toBe(summary);
  expect(unread).toEqual([]);
});

test('what the node sends to itself does not meet nat again at its end', () => {
  const { in: _in, ...sent } = packet;
  expect(traced(saved({ nat: [':INPUT DROP'] }), { destination: '192.0.2.11' }, sent).text).toBe('pass');
});

test('a policy drops what no rule accepts', () => {
  expect(traced(saved({}, 'DROP')).text).toBe('drop');
  expect(traced(saved({ filter: ['-A FORWARD -i cali+ -j ACCEPT'] }, 'DROP')).text).toBe(both);
});

test.each<[string, string, string]>([
  ['an unknown option', '-A FORWARD -m u32 --u32 0x0 -j DROP', 'option --u32 of -m u32 is not read'],
  ['a rate', '-A FORWARD -m limit --limit 1/sec -j DROP', 'option --limit of -m limit is not read'],
  [
    'an unknown target',
    '-A FORWARD -d 10.244.2.7/32 -j NFQUEUE --queue-num 0',
    'target NFQUEUE --queue-num 0 is not read',
  ],
  [
    'a set of sets',
    '-A FORWARD -m set --match-set odd dst -j DROP',
    'whether it matches depends on more than addresses, ports and incoming interfaces',
  ],
  [
    'a set that was not saved',
    '-A FORWARD -m set --match-set gone dst -j DROP',
    'whether it matches depends on more than addresses, ports and incoming interfaces',
  ],
  [
    'a test of sockets, for a packet to the node',
    '-A INPUT -m socket -j DROP',
    'whether it matches depends on more than addresses, ports and incoming interfaces',
  ],
  [
    'an address of one interface',
    '-A INPUT -m addrtype --dst-type LOCAL --limit-iface-in -j DROP',
    'whether it matches depends on more than addresses, ports and incoming interfaces',
  ],
  ['a test of an identifier', '-A FORWARD -m eui64 -j DROP', 'module eui64 is not read'],
])('a rule with %s is named where a packet can meet it', (_title, rule, why) => {
  const toNode = rule.startsWith('-A INPUT');
  const { text, unread } = traced(saved({ filter: [rule] }), toNode ? { destination: '192.0.2.11' } : {});
  expect(unread).toEqual([`${rule}: ${why}`]);
  expect(text).toBe(toNode ? 'pass' : both);
});

test.each([
  ['that excludes the packet', '-A FORWARD -p udp -m u32 --u32 0x0 -j DROP'],
  ['for another source', '-A FORWARD -s 192.0.2.0/24 -m limit --limit 1/sec -j DROP'],
  ['of sockets', '-A FORWARD -m socket --transparent -j DROP'],
  ['of a bridge, by which it does not leave', '-A FORWARD -m physdev --physdev-in veth1 --physdev-is-bridged -j DROP'],
  ['of ICMP', '-A FORWARD -p icmp -m icmp --icmp-type 8 -j DROP'],
  ['of a client at port 0', '-A FORWARD -p tcp -m tcp --sport 0 -j DROP'],
  ['that only logs', '-A FORWARD -m limit --limit 1/sec -j LOG'],
  ['that counts', '-A FORWARD -m nfacct --nfacct-name  ct_state_invalid_dropped_pkts -j ACCEPT'],
  ['with words of a rule in its comment', '-A FORWARD -m comment --comment "x -m u32 -j DROP" -j ACCEPT'],
])('a rule %s is no doubt', (_title, rule) => {
  expect(traced(saved({ filter: [rule] })).unread).toEqual([]);
});

test('a set that packets fill is not known', () => {
  const drop = '-A FORWARD -m set --match-set blocked src -j DROP';
  expect(traced(saved({ filter: [drop] })).text).toBe('drop');
  const { text, unread } = traced(saved({ filter: ['-A INPUT -j SET --add-set blocked src --exist', drop] }));
  expect([text, unread.length]).toEqual([both, 1]);
});

test('rules on the way say which sources they distinguish', () => {
  const { notes } = traced(
    saved({ filter: ['-A FORWARD -i tun0 -j ACCEPT', '-A FORWARD -s 203.0.113.0/24 -p udp -j DROP'] }),
  );
  expect([...notes.networks].toSorted()).toEqual(['10.244.0.0/16', '10.244.1.5/32']);
  expect([...notes.interfaces]).toEqual(['tun0']);
});

test('two stores with rules at one hook have no known order', () => {
  const lines = saved();
  const stores = (['nft', 'legacy'] as const).flatMap((store) =>
    readIptables({ store, family: 'ipv4', lines }, new Map()),
  );
  expect(new LiveTables('ipv4', stores).ties).toContain(
    'PREROUTING at priority -100 of type nat: iptables-nft -t nat and iptables-legacy -t nat',
  );
});

test.each<[string, readonly string[]]>([
  [
    'chains that jump twice',
    Array.from({ length: 40 }, (_, n) => `:N${n} -`).concat(
      '-A FORWARD -j N0',
      ...Array.from({ length: 39 }, (_, n) => [`-A N${n} -j N${n + 1}`, `-A N${n} -j N${n + 1}`]),
    ),
  ],
  [
    'rules of chance',
    Array.from(
      { length: 40 },
      () => '-A FORWARD -m statistic --mode random --probability 0.5 -j MARK --set-xmark 0x1/0x0',
    ),
  ],
])('%s do not multiply what a packet meets without end', (_title, filter) => {
  expect(() => traced(saved({ filter }))).toThrow(/meets more than \d+ rules/);
});

/** nat is asked about new connections, and what follows from them. */
test.each([
  ['NEW', 'drop'],
  ['RELATED', 'drop'],
  ['ESTABLISHED', 'pass'],
  ['INVALID', 'pass'],
] as const)('a policy DROP of a nat chain meets a packet of state %s or not', (state, expected) => {
  const lines = ['*nat', ':INPUT DROP', 'COMMIT'];
  const tables = new LiveTables('ipv4', readIptables({ store: 'nft', family: 'ipv4', lines }, readLiveSets([])));
  const live = { tables, notes: traceNotes(), outOf: (): string => 'eth0', state };
  const toNode = { ...packet, destination: '192.0.2.11' };
  expect(summarise(trace(emptyProgram, toNode, { localAddresses: ['192.0.2.11'], live }))).toBe(expected);
});

test('the words of a line are those of the plain pattern, whichever way it was split', () => {
  const plain = (line: string): unknown =>
    [...line.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)].map(([, quoted, bare]) => ({
      text: quoted?.replaceAll(/\\(.)/g, '$1') ?? bare,
      quoted: quoted !== undefined,
    }));
  const pieces = [' ', '"', '\\', "'", '-A', 'x y', '\t', '!', 'é', '""', '\u00A0'];
  const lines = [''];
  for (const line of lines) if (line.length < 5) lines.push(...pieces.map((piece) => line + piece));
  const differing = lines.filter((line) => JSON.stringify(wordsOf(line)) !== JSON.stringify(plain(line)));
  expect(differing).toEqual([]);
});
