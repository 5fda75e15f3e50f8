import { expect, test } from 'vitest';
import { bundleOf, edited } from '../example.fixture.ts';
import { edit, nftJson, observe, type SavedFiles, savedFiles } from './observed.fixture.ts';
import { parityOf } from './parity.ts';

/** Rules of other programs that drop or turn packets of a Service, in forms that are easily overlooked. */

const node = 'node-1';

function resultWith(change: (saved: SavedFiles) => void, example = '01-cluster-ip' as Parameters<typeof bundleOf>[0]) {
  const files = bundleOf(example);
  const saved = savedFiles(files, node);
  change(saved);
  const report = parityOf(files, observe(node, saved), node);
  return report.result;
}

const file = 'iptables-nft-save.txt';

/** Adds rules before all others of FORWARD; `:HID` is a chain of another program. */
const filtered =
  (...rules: readonly string[]) =>
  (saved: SavedFiles): void => {
    const text = saved.get(file) ?? '';
    saved.set(file, text.replace('-A INPUT', `:HID -\n:HID2 -\n${rules.join('\n')}\n-A INPUT`));
  };

const sets =
  (lines: readonly string[], ...rules: readonly string[]) =>
  (saved: SavedFiles): void => {
    filtered(...rules)(saved);
    saved.set('ipset.txt', `${lines.join('\n')}\n`);
  };

const table =
  (...lines: readonly string[]) =>
  (saved: SavedFiles): void => {
    saved.set(file, `${lines.join('\n')}\nCOMMIT\n${saved.get(file) ?? ''}`);
  };

test.each<[string, (saved: SavedFiles) => void]>([
  ['a drop by interface', filtered('-A FORWARD -i eth1 -j DROP')],
  ['a drop by interface and network', filtered('-A FORWARD -s 10.9.0.0/16 -i eth1 -j DROP')],
  [
    'a drop behind two tests that are not read',
    filtered(
      '-A FORWARD -m conntrack --ctstate NEW -m u32 --u32 0x0 -j HID',
      '-A HID -m conntrack --ctstate NEW -m limit --limit 5/sec -j DROP',
    ),
  ],
  [
    'a drop of a network behind a test that is not read',
    filtered('-A FORWARD -m conntrack --ctstate NEW -m u32 --u32 0x0 -j HID', '-A HID -s 10.9.0.0/16 -j DROP'),
  ],
  [
    'a mark and a jump that are not read, which drop together',
    filtered(
      '-A FORWARD -m conntrack --ctstate NEW -m u32 --u32 0x0 -j MARK --set-xmark 0x1/0x1',
      '-A FORWARD -m conntrack --ctstate NEW -m u32 --u32 0x1 -j HID',
      '-A HID -m mark --mark 0x1/0x1 -j DROP',
    ),
  ],
  [
    'a mark that is not read, and what is dropped by it',
    filtered(
      '-A FORWARD -m conntrack --ctstate NEW -m u32 --u32 0x0 -j MARK --set-xmark 0x1/0x1',
      '-A FORWARD -m mark --mark 0x1/0x1 -m limit --limit 5/sec -j DROP',
    ),
  ],
  [
    'an exception in a set',
    sets(
      ['create S hash:net family inet', 'add S 0.0.0.0/1', 'add S 128.0.0.0/1', 'add S 10.9.0.0/16 nomatch'],
      '-A FORWARD -m set ! --match-set S src -j DROP',
    ),
  ],
  [
    'a set of networks of one length',
    sets(['create S hash:ip family inet netmask 24', 'add S 10.9.0.0'], '-A FORWARD -m set --match-set S src -j DROP'),
  ],
  [
    'clients that a list does not have',
    filtered('-A FORWARD -m recent ! --rcheck --name KNOCK --mask 255.255.255.255 --rsource -j DROP'),
  ],
  ['a bridge', filtered('-A FORWARD -m conntrack --ctstate NEW -m physdev --physdev-is-in -j DROP')],
  ['every second packet', filtered('-A FORWARD -m statistic --mode nth --every 2 --packet 0 -j DROP')],
  ['a comment of options', filtered('-A FORWARD -m comment --comment "-j ACCEPT -s 10.0.0.0/32" -j DROP')],
  ['a goto', filtered('-A FORWARD -g HID', '-A HID -d 10.244.0.0/16 -j HID2', '-A HID2 -j DROP')],
  ['masqueraded packets', filtered('-A FORWARD -m mark --mark 0x4000/0x4000 -j DROP')],
  ['a queue', filtered('-A FORWARD -j NFQUEUE --queue-num 1')],
  ['a chain that is missing', filtered('-A FORWARD -j NOWHERE')],
  ['a mark for all', table('*mangle', ':PREROUTING ACCEPT', '-A PREROUTING -j MARK --set-xmark 0x4000/0x4000')],
  ['no connection tracking', table('*raw', ':PREROUTING ACCEPT', '-A PREROUTING -j CT --notrack')],
  [
    'no connection tracking of answers',
    table('*raw', ':PREROUTING ACCEPT', '-A PREROUTING -d 198.51.100.0/24 -j CT --notrack'),
  ],
  ['no connection tracking, in the old form', table('*raw', ':PREROUTING ACCEPT', '-A PREROUTING -j NOTRACK')],
  ['the security table', table('*security', ':FORWARD ACCEPT', '-A FORWARD -p tcp -j DROP')],
  [
    'a transparent proxy',
    table('*mangle', ':PREROUTING ACCEPT', '-A PREROUTING -p tcp -j TPROXY --on-port 15001 --on-ip 0.0.0.0'),
  ],
  ['a policy', table('*mangle', ':POSTROUTING DROP')],
  [
    'packets by chance, of established connections',
    filtered('-A FORWARD -m conntrack --ctstate ESTABLISHED -m statistic --mode random --probability 0.3 -j DROP'),
  ],
  [
    'another source than that of the node',
    (saved) =>
      saved.set(
        file,
        (saved.get(file) ?? '').replace(
          /^-A KUBE-POSTROUTING (.*)-j MASQUERADE.*$/m,
          '-A KUBE-POSTROUTING $1-j SNAT --to-source 192.0.2.99',
        ),
      ),
  ],
  [
    'a table that the tool does not print',
    (saved) => saved.set(file, `# Table \`mangle' is incompatible, use 'nft' tool.\n${saved.get(file)}`),
  ],
  [
    'base chains that the tool does not print',
    (saved) =>
      saved.set(
        file,
        `# Table \`mangle' contains incompatible base-chains, use 'nft' tool to list them.\n${saved.get(file)}`,
      ),
  ],
])('%s: the result is not equivalent', (_title, change) => {
  expect(resultWith(change)).not.toBe('equivalent');
});

test('a list of very many networks makes the result incomplete', () => {
  const many = Array.from({ length: 1_500 }, (_, n) => `add S 11.${n >> 8}.${n & 255}.0/24`);
  const change = sets(
    ['create S hash:net family inet', ...many],
    '-A FORWARD -m set --match-set S src -m conntrack --ctstate NEW -j DROP',
  );
  expect(resultWith(change)).toBe('incomplete');
});

test('without the sysctls of a node its node ports on localhost are not compared', () => {
  expect(resultWith(() => undefined, '02-node-port')).toBe('equivalent');
  expect(resultWith((saved) => saved.delete('sysctl.txt'), '02-node-port')).toBe('incomplete');
});

const match = (left: object, right: unknown, op = '=='): object => ({ match: { op, left, right } });
/** Later packets are compared without assumptions about rules that are not read. */
const isNew = match({ ct: { key: 'state' } }, 'new', 'in');
const saddr = { payload: { protocol: 'ip', field: 'saddr' } };
const daddr = { payload: { protocol: 'ip', field: 'daddr' } };
const dport = { payload: { protocol: 'tcp', field: 'dport' } };
const markOf = { meta: { key: 'mark' } };
const drop = { drop: null };
const net = (addr: string, len: number): object => ({ prefix: { addr, len } });

interface Foreign {
  readonly rules: readonly (readonly object[])[];
  readonly objects?: readonly object[];
  readonly chain?: object;
}

const nft =
  ({ rules, objects = [], chain = {} }: Foreign, family = 'inet') =>
  (saved: SavedFiles): void => {
    const of = { family, table: 'other' };
    const base = { ...of, name: 'c', type: 'filter', hook: 'forward', prio: -5, policy: 'accept', ...chain };
    const listed = [
      { table: { family, name: 'other' } },
      { chain: base },
      { chain: { ...of, name: 'd' } },
      ...objects.map((one) =>
        Object.fromEntries(Object.entries(one).map(([kind, body]) => [kind, { ...of, ...body }])),
      ),
      ...rules.map((expr) => ({ rule: { ...of, chain: 'c', expr: [isNew, ...expr] } })),
      { rule: { ...of, chain: 'd', expr: [drop] } },
    ];
    saved.set('nft.json', nftJson(listed));
  };
const vmap = (key: object, ...elements: readonly unknown[]): object => ({ vmap: { key, data: { set: elements } } });

test.each<[string, (saved: SavedFiles) => void]>([
  [
    'a set whose elements time removes',
    nft({
      objects: [{ set: { name: 'bans', type: 'ipv4_addr', flags: ['timeout'] } }],
      rules: [[match(saddr, '@bans'), drop]],
    }),
  ],
  [
    'a set that packets fill',
    nft({
      objects: [{ set: { name: 'bans', type: 'ipv4_addr', flags: ['dynamic'] } }],
      rules: [[match(saddr, '@bans'), { goto: { target: 'd' } }]],
    }),
  ],
  [
    'a map whose elements time removes',
    nft({
      objects: [{ map: { name: 'bans', type: 'ipv4_addr', map: 'verdict', flags: ['timeout'] } }],
      rules: [[{ vmap: { key: saddr, data: '@bans' } }]],
    }),
  ],
  [
    'a rate in a set',
    nft({
      objects: [{ set: { name: 'meter', type: 'ipv4_addr', flags: ['dynamic'] } }],
      rules: [
        [
          { set: { op: 'add', elem: saddr, set: '@meter', stmt: [{ limit: { rate: 10, per: 'second', inv: true } }] } },
          drop,
        ],
      ],
    }),
  ],
  ['a verdict by source', nft({ rules: [[vmap(saddr, [net('10.9.0.0', 16), { drop: null }])]] })],
  [
    'a verdict by incoming interface',
    nft({ rules: [[vmap({ meta: { key: 'iifname' } }, ['eth1', { jump: { target: 'd' } }])]] }),
  ],
  ['a verdict by outgoing interface', nft({ rules: [[vmap({ meta: { key: 'oifname' } }, ['eth1', { drop: null }])]] })],
  ['a range of sources', nft({ rules: [[match(saddr, { range: ['10.9.0.5', '10.9.0.9'] }), drop]] })],
  [
    'a source within networks of both ends',
    nft({
      rules: [
        [match({ concat: [saddr, daddr] }, { set: [{ concat: [net('10.9.0.0', 16), net('10.244.0.0', 16)] }] }), drop],
      ],
    }),
  ],
  ['marks in a set', nft({ rules: [[match({ '&': [markOf, 0x4000] }, { set: [0x4000] }), drop]] })],
  [
    'a mark of two operations',
    nft({
      rules: [
        [{ mangle: { key: markOf, value: { '|': [{ ct: { key: 'mark' } }, 0x1] } } }],
        [match(markOf, 0x2), drop],
      ],
    }),
  ],
  [
    'a mark of the connection',
    nft({
      rules: [[{ mangle: { key: { ct: { key: 'mark' } }, value: 7 } }], [match({ ct: { key: 'mark' } }, 7), drop]],
    }),
  ],
  [
    'all keys but one',
    nft({
      objects: [
        {
          map: {
            name: 'm',
            type: 'ipv4_addr',
            map: 'verdict',
            flags: ['interval'],
            elem: [
              [net('10.244.0.0', 16), { drop: null }],
              ['*', { accept: null }],
            ],
          },
        },
      ],
      rules: [[{ vmap: { key: daddr, data: '@m' } }]],
    }),
  ],
  ['all keys', nft({ rules: [[vmap({ concat: [daddr, dport] }, ['*', { drop: null }])]] })],
  ['a hook of a device', nft({ rules: [[drop]], chain: { hook: 'ingress', dev: 'eth0' } })],
  ['a table of devices', nft({ rules: [[drop]], chain: { hook: 'ingress', dev: 'eth0' } }, 'netdev')],
  ['a table of bridges', nft({ rules: [[drop]] }, 'bridge')],
  ['a policy', nft({ rules: [], chain: { policy: 'drop' } })],
  [
    'an accept of another protocol version, behind which all is dropped',
    nft({ rules: [[match({ payload: { protocol: 'ip6', field: 'nexthdr' } }, 'tcp'), { accept: null }], [drop]] }),
  ],
  ['a chain that is missing', nft({ rules: [[{ jump: { target: 'nowhere' } }]] })],
  ['an unknown key of a prototype', nft({ rules: [[match({ meta: { key: 'constructor' } }, 1), drop]] })],
  [
    'two tables at one place, of which the second has a translation that is not read',
    (saved) => {
      const of = { type: 'nat', hook: 'prerouting', prio: -100 };
      nft({ chain: of, rules: [[match({ meta: { key: 'rtclassid' } }, 0), { dnat: { addr: '192.0.2.99' } }]] })(saved);
    },
  ],
  [
    'a port by a map',
    nft({
      chain: { type: 'nat', hook: 'prerouting', prio: -150 },
      rules: [
        [
          match(daddr, '10.96.0.10'),
          { dnat: { addr: '10.244.2.5', port: { map: { key: dport, data: { set: [[80, 1]] } } } } },
        ],
      ],
    }),
  ],
])('nftables: %s: the result is not equivalent', (_title, change) => {
  expect(resultWith(change)).not.toBe('equivalent');
});

test('a table that is dormant drops nothing, and serves nothing', () => {
  const asleep = (saved: SavedFiles): void => {
    nft({ rules: [[drop]] })(saved);
    const { nftables } = JSON.parse(saved.get('nft.json') ?? '') as { nftables: object[] };
    const [, , ...rest] = nftables;
    saved.set('nft.json', nftJson([{ table: { family: 'inet', name: 'other', flags: 'dormant' } }, ...rest]));
  };
  expect(resultWith(asleep)).toBe('equivalent');
});

test('a lost masquerade to a process of the node, which its first address alone does not show', () => {
  const files = edited(bundleOf('02-node-port'), 'profiles/default/services/shop/audit.iptables', (text) =>
    text.replaceAll('10.244.1.6', '192.0.2.11'),
  );
  const result = (addresses: readonly string[], isLost: boolean): string => {
    const saved = savedFiles(files, node);
    const more = addresses.map((one) => `    inet ${one}/24 scope global eth0\n`).join('');
    saved.set('ip-addr.txt', (saved.get('ip-addr.txt') ?? '').replace('3: eth1', `${more}3: eth1`));
    if (isLost) edit(/^-A KUBE-SVC-ZUB5EQEG77H2CZNE .*-j KUBE-MARK-MASQ\n/m, '')(saved);
    const report = parityOf(files, observe(node, saved), node);
    return [report.result, ...report.differences.map(({ packet }) => `${packet.from} to ${packet.to}`)].join(' ');
  };
  expect(result([], false)).toBe('equivalent');
  expect(result(['192.0.2.111'], false)).toBe('equivalent');
  expect(result(['192.0.2.111'], true)).toBe('different 192.0.2.111 to 10.96.0.21');
});
