import { expect, test } from 'vitest';
import { readNftText } from './nft-tables.ts';

const listing = (...rules: readonly string[]): string =>
  `table ip kube-proxy {\n\tchain c {\n${rules.map((rule) => `\t\t${rule}\n`).join('')}\t}\n}\n`;

const expressionsOf = (rule: string): unknown =>
  (readNftText(listing(rule)).at(-1) as { readonly rule: { readonly expr: unknown } }).rule.expr;

const mark = { meta: { key: 'mark' } };
const daddr = { payload: { protocol: 'ip', field: 'daddr' } };
const place = { concat: [daddr, { meta: { key: 'l4proto' } }, { payload: { protocol: 'th', field: 'dport' } }] };
const match = (left: object, right: unknown, op = '=='): object => ({ match: { op, left, right } });

/** Each as nft 1.0.6 prints it in both forms. */
test.each<[string, readonly object[]]>([
  [
    'ct state new jump firewall-check',
    [match({ ct: { key: 'state' } }, 'new', 'in'), { jump: { target: 'firewall-check' } }],
  ],
  [
    'ct state established,related accept',
    [match({ ct: { key: 'state' } }, ['established', 'related'], 'in'), { accept: null }],
  ],
  [
    'ct state { established, new } counter packets 3 bytes 9 drop',
    [match({ ct: { key: 'state' } }, { set: ['established', 'new'] }), { counter: null }, { drop: null }],
  ],
  [
    'ct original ip daddr 10.0.0.1 drop',
    [match({ ct: { key: 'ip daddr', dir: 'original' } }, '10.0.0.1'), { drop: null }],
  ],
  ['ip daddr . meta l4proto . th dport vmap @service-ips', [{ vmap: { key: place, data: '@service-ips' } }]],
  [
    'ip daddr != { 10.0.0.0/8, 192.168.1.1-192.168.1.9 } reject with icmp port-unreachable',
    [
      match(
        daddr,
        { set: [{ prefix: { addr: '10.0.0.0', len: 8 } }, { range: ['192.168.1.1', '192.168.1.9'] }] },
        '!=',
      ),
      { reject: { type: 'icmp', expr: 'port-unreachable' } },
    ],
  ],
  [
    'tcp dport 80-90 reject with tcp reset',
    [match({ payload: { protocol: 'tcp', field: 'dport' } }, { range: [80, 90] }), { reject: { type: 'tcp reset' } }],
  ],
  ['meta mark set meta mark | 0x00004000', [{ mangle: { key: mark, value: { '|': [mark, 0x4000] } } }]],
  ['meta mark & 0x00004000 != 0x00004000 return', [match({ '&': [mark, 0x4000] }, 0x4000, '!='), { return: null }]],
  [
    'iifname "eth*" fib daddr type local masquerade fully-random',
    [
      match({ meta: { key: 'iifname' } }, 'eth*'),
      match({ fib: { result: 'type', flags: ['daddr'] } }, 'local'),
      { masquerade: { flags: 'fully-random' } },
    ],
  ],
  [
    'meta l4proto tcp dnat ip to [fd00::1]:8080',
    [match({ meta: { key: 'l4proto' } }, 'tcp'), { dnat: { family: 'ip', addr: 'fd00::1', port: 8080 } }],
  ],
  [
    'dnat ip to numgen random mod 2 map { 0 : 10.1.1.1 . 80, 1 : 10.1.1.2 . 80 }',
    [
      {
        dnat: {
          family: 'ip',
          addr: {
            map: {
              key: { numgen: { mode: 'random', mod: 2, offset: 0 } },
              data: {
                set: [
                  [0, { concat: ['10.1.1.1', 80] }],
                  [1, { concat: ['10.1.1.2', 80] }],
                ],
              },
            },
          },
        },
      },
    ],
  ],
  ['update @affinity { ip daddr } comment "a } b"', [{ set: { op: 'update', elem: daddr, set: '@affinity' } }]],
  ['log prefix "a b " counter name "c" notrack', [{ log: { prefix: 'a b ' } }, { counter: 'c' }, { notrack: null }]],
  [
    'ct state ! established,related drop',
    [match({ ct: { key: 'state' } }, ['established', 'related'], '!'), { drop: null }],
  ],
  ['meta mark 0x00000001-0x00000005 drop', [match(mark, { range: [1, 5] }), { drop: null }]],
  [
    'meta mark { 0x00000010/30, 0x00000007 } drop',
    [match(mark, { set: [{ prefix: { addr: 16, len: 30 } }, 7] }), { drop: null }],
  ],
  ['snat ip to 1.2.3.4 fully-random', [{ snat: { family: 'ip', addr: '1.2.3.4', flags: 'fully-random' } }]],
  [
    'meta mark & 0x00004002 | 0x00000002 == 0x00000002 drop',
    [{ text: 'meta mark & 0x00004002 | 0x00000002 == 0x00000002 drop' }],
  ],
  [
    'ip daddr 10.0.0.1 limit rate 10/second accept',
    [match(daddr, '10.0.0.1'), { limit: { rate: '10/second' } }, { accept: null }],
  ],
])('%s', (rule, expected) => {
  expect(expressionsOf(rule)).toEqual(expected);
});

test('sets, maps and chains', () => {
  const text = `# Warning: table ip nat is managed by iptables-nft, do not touch!
table ip nat {
	chain PREROUTING {
		type nat hook prerouting priority dstnat; policy accept;
		xt match "comment" counter packets 0 bytes 0 jump KUBE-SERVICES
	}
}
table ip kube-proxy { # handle 3
	comment "rules for kube-proxy"

	map service-ips { # handle 4
		type ipv4_addr . inet_proto . inet_service : verdict
		comment "ClusterIP, ExternalIP and LoadBalancer IP traffic"
		elements = { 10.96.0.1 . tcp . 443 counter packets 1 bytes 2 comment "x, y } : z" : goto a,
			     10.96.0.9 . udp . 53 : drop }
	}

	set affinity-a {
		type ipv4_addr
		size 65535
		flags dynamic,timeout
		timeout 3h30m
		elements = { 10.244.1.5 timeout 3h expires 2h59m }
	}

	counter hits {
		packets 0 bytes 0
	}

	chain filter-prerouting-pre-dnat {
		type filter hook prerouting priority dstnat - 10; policy drop;
		ct state new jump firewall-check # handle 7
	}
}
`;
  const of = { family: 'ip', table: 'kube-proxy' };
  const key = (address: string, protocol: string, port: number): object => ({ concat: [address, protocol, port] });
  expect(readNftText(text)).toEqual([
    { table: { family: 'ip', name: 'kube-proxy' } },
    {
      map: {
        ...of,
        name: 'service-ips',
        elem: [
          [{ elem: { val: key('10.96.0.1', 'tcp', 443), comment: 'x, y } : z' } }, { goto: { target: 'a' } }],
          [key('10.96.0.9', 'udp', 53), { drop: null }],
        ],
      },
    },
    {
      set: {
        ...of,
        name: 'affinity-a',
        flags: ['dynamic', 'timeout'],
        timeout: 12_600,
        elem: [{ elem: { val: '10.244.1.5', timeout: '3h', expires: '2h59m' } }],
      },
    },
    {
      chain: {
        ...of,
        name: 'filter-prerouting-pre-dnat',
        type: 'filter',
        hook: 'prerouting',
        prio: -110,
        policy: 'drop',
      },
    },
    {
      rule: {
        ...of,
        chain: 'filter-prerouting-pre-dnat',
        expr: [match({ ct: { key: 'state' } }, 'new', 'in'), { jump: { target: 'firewall-check' } }],
      },
    },
  ]);
});

test('a set that loses elements by time says so, as in JSON', () => {
  const text =
    'table ip a {\n\tset s {\n\t\ttype ipv4_addr\n\t\ttimeout 1h\n\t\telements = { 10.0.0.1 timeout 5m expires 4m59s404ms }\n\t}\n}\n';
  expect(readNftText(text).at(-1)).toMatchObject({ set: { flags: ['timeout'], timeout: 3600 } });
});

test.each([
  [
    'a chain without a name',
    'table ip a {\n\tchain c {\n\t\tip saddr 10.0.0.0/8 jump {\n\t\t\ttcp dport 80 drop\n\t\t}\n\t}\n}\n',
    'chain c has a chain without a name: "ip saddr 10.0.0.0/8 jump {"',
  ],
  [
    'the head of a chain without an end',
    `table ip a {\n\tchain c {\n\t\ttype nat hook input${' priority 1'.repeat(1_000)}\n\t}\n}\n`,
    'chain c has a head that is not read: "type nat hook input priority 1 ',
  ],
  ['a truncated listing', 'table ip a {\n\tchain c {\n\t\tdrop\n', 'it is truncated: table ip a has no end'],
  ['another text', 'nft: command not found\n', 'it has the line "nft: command not found"'],
  [
    'a set that is not read',
    'table ip a {\n\tset s {\n\t\telements = { 10.0.0.1 limit rate 1/second }\n\t}\n}\n',
    ', is missing',
  ],
])('%s is refused', (_title, text, why) => {
  expect(() => readNftText(text)).toThrow(why);
});
