import { describe, expect, test } from 'vitest';
import {
  chainOf,
  type FamilyProgram,
  fillRules,
  linkTree,
  printNftTable,
  type ResolvedRules,
  sectionsOf,
  settledProgram,
} from '@sluice/netfilter';
import { resolveNode } from '@sluice/bundle';
import { bundleOf } from '../example.fixture.ts';
import { nftBundle } from '../nft.fixture.ts';
import type { Explanation } from './explanation.ts';
import { explain } from './explain.ts';

const balancer = bundleOf('03-load-balancer');
const virtual = bundleOf('10-ipvs');
const text = balancer.get('profiles/default/services/shop/web.iptables') ?? '';
const chain = /-A KUBE-SERVICES .* -j (KUBE-SVC-\S+)$/m.exec(text)?.[1] ?? '';
const rule = /^-A KUBE-SERVICES .*cluster IP.*$/m.exec(text)?.[0] ?? '';

test.each([
  ['a chain', chain],
  ['a rule as the bundle has it', rule],
  ['a rule with counters', `[12:720] ${rule}`],
  ['a rule as iptables-save prints it', rule.replace(/-m tcp -p tcp (-d \S+) /, '$1/32 -p tcp -m tcp ')],
] as const)('%s is the Service that has it', (_title, asked) => {
  expect(explain(balancer, asked)).toMatchObject({
    service: 'shop/web',
    places: [{ file: 'profiles/default/services/shop/web.iptables' }],
  });
});

test.each([
  ['a virtual server of ipvsadm -Ln', 'TCP  10.96.0.10:80 wrr', 'shop/web'],
  ['a real server of ipvsadm -Ln', '  -> 10.244.2.5:8080              Masq    2      0          0', 'shop/web'],
  ['an entry of ipset list', '10.96.0.10,tcp:80', 'shop/web'],
  ['an entry of ipset save', 'add KUBE-CLUSTER-IP 10.96.0.10,tcp:80', 'shop/web'],
  ['a network of one address, as the kernel prints it', '203.0.113.20,tcp:80,192.0.2.11', 'shop/cart'],
] as const)('%s is the Service that has it', (_title, asked, service) => {
  expect(explain(virtual, asked)).toMatchObject({ service });
});

test('a place is the line of the file', () => {
  const found = explain(balancer, rule);
  if (!found || 'code' in found) throw new Error('not found');
  for (const { file, line, text: shown } of found.places) expect(balancer.get(file)?.split('\n')[line - 1]).toBe(shown);
});

test('names no Service for a shared chain', () => {
  expect(explain(balancer, 'KUBE-POSTROUTING')).not.toHaveProperty('service');
  expect(explain(virtual, 'KUBE-CLUSTER-IP')).not.toHaveProperty('service');
});

test('finds nothing for an unknown chain, and reports a malformed rule', () => {
  expect(explain(balancer, 'KUBE-SVC-AAAAAAAAAAAAAAAA')).toBeUndefined();
  expect(explain(balancer, '-A KUBE-SERVICES -j LOG')).toMatchObject({ code: 'RULE_REFUSED' });
});

test.each([
  '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
  '-A OUTPUT -j SLUICE-SERVICES',
])('explains a rule of a built-in chain by its target: %s', (asked) => {
  const found = explain(balancer, asked);
  expect(found).toMatchObject({ places: [{ text: ':KUBE-SERVICES - [0:0]' }, {}, {}, {}] });
  expect(found).toHaveProperty(
    'meaning',
    expect.stringMatching(/^leads packets of \w+ to KUBE-SERVICES: entry point of/),
  );
});

test('finds nothing for a rule of a built-in chain with a foreign target', () => {
  expect(explain(balancer, '-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT')).toBeUndefined();
});

describe('layout tree', () => {
  const dual = bundleOf('05-dual-stack');
  const web = 'profiles/default/services/shop/web.iptables';
  const lines = (dual.get(web) ?? '').split('\n');
  const program: FamilyProgram = programOf(dual);
  const rules = [...program.nat.chains.values(), ...program.filter.chains.values()].flat();
  const ruleWith = (...parts: readonly string[]): string =>
    rules.find((one) => parts.every((part) => one.includes(part))) ?? 'there is no such rule';

  test.each([
    ['its chain', 'SLU-SVC-67NZLRHBNDSAWJRO.zz', /^:KUBE-SVC-/, 'KUBE-SVC-67NZLRHBNDSAWJRO'],
    [
      'the rule that leads to it',
      ruleWith('-d 10.96.0.50/32', '-j SLU-SVC-'),
      /^-A KUBE-SERVICES .*cluster IP/,
      'KUBE-SERVICES',
    ],
    ['its node port', ruleWith('--dport 30050'), /^-A KUBE-NODEPORTS /, 'KUBE-NODEPORTS'],
    ['a rule that drops', ruleWith('-d 203.0.113.20/32', '-j DROP'), /^-A KUBE-PROXY-FIREWALL /, 'KUBE-PROXY-FIREWALL'],
    [
      'an endpoint without a chain',
      ruleWith('--to-destination 10.244.2.5:8080'),
      /^-A KUBE-SEP-.* 10\.244\.2\.5:8080$/,
      'KUBE-SEP-CXXRTNR2DI2TYC6R',
    ],
    [
      'a rule of its own chain',
      ruleWith('-A SLU-FW-', '-s 198.51.100.0/24'),
      /^-A KUBE-FW-.* -s 198/,
      'KUBE-FW-67NZLRHBNDSAWJRO',
    ],
  ] as const)('%s is the port, the line and the name in layout flat', (_title, asked, line, counterpart) => {
    const result = explain(dual, asked);
    expect(result).toMatchObject({
      service: 'shop/web',
      ports: [{ key: 'shop/web:http' }],
      layout: 'tree',
      counterpart,
    });
    const place = (result as Explanation).places.find(({ file }) => file === web);
    expect(place?.text).toMatch(line);
    expect(lines[(place?.line ?? 0) - 1]).toBe(place?.text);
  });

  test('explains every rule that a node links, also those with bytecode', () => {
    expect(rules.filter((one) => one.includes(' -m bpf '))).toHaveLength(2);
    const open = rules.filter((one) => {
      const result = explain(dual, one);
      return result === undefined || 'code' in result || result.layout === undefined;
    });
    // What CNI plugins jump to has kube-proxy's names in both.
    expect(open.filter((one) => !/^-A KUBE-(?:MARK-MASQ|POSTROUTING) /.test(one))).toEqual([]);
  });

  test('looks for a chain that no file has in the rules of a node', () => {
    const leaf = chainOf(ruleWith('-d 10.96.0.50/32', '-j SLU-SVC-'));
    expect(explain(dual, leaf)).toMatchObject({
      service: 'shop/web',
      meaning: expect.stringContaining('node-1') as string,
      places: [{}, {}, { file: web }, { file: web }],
    });
    const elsewhere = explain(dual, 'SLUICE-T-AAAAAAAAAAAAAAAA.00', 'node-2');
    expect(elsewhere).toMatchObject({
      places: [],
      meaning: expect.stringContaining('the rules of node-2 do not have it') as string,
    });
  });

  test('assigns groups of endpoints to their Service', () => {
    const many = new Map(dual).set(web, withEndpoints(40));
    const group = [...programOf(many).nat.chains.keys()].find((name) => name.startsWith('SLU-GRP-')) ?? '';
    expect(explain(many, group, 'node-1')).toMatchObject({ service: 'shop/web', ports: [{ key: 'shop/web:http' }] });
  });

  test('reports an unknown node', () => {
    expect(explain(dual, 'SLUICE-T-AAAAAAAAAAAAAAAA.00', 'node-9')).toMatchObject({ code: 'BUNDLE_UNKNOWN_NODE' });
  });

  test('a fork names all Services that it leads to', () => {
    const policies = bundleOf('07-policies');
    const { nat } = programOf(policies);
    const root = nat.chains.get('SLUICE-SERVICES')?.[0]?.split(' ').at(-1) ?? '';
    const { services = [] } = explain(policies, root) as Explanation;
    expect(services).toEqual(services.toSorted());
    expect(services).toContain('shop/rolling:http');
    expect(services.length).toBeGreaterThan(2);
  });
});

describe('a Service and an address', () => {
  const dual = bundleOf('05-dual-stack');
  const file = (name: string): string => `profiles/default/services/shop/${name}`;

  test.each(['shop/web', 'shop/web:http'])('%s has its ports, addresses and lines', (asked) => {
    expect(explain(dual, asked)).toMatchObject({
      service: 'shop/web',
      ports: [
        {
          key: 'shop/web:http 80/TCP',
          addresses: [{ text: '[2001:db8:100::20]:80' }, { text: '[fd00:10:96::50]:80' }],
        },
        {
          key: 'shop/web:http 80/TCP',
          addresses: [{ text: '10.96.0.50:80' }, { text: '203.0.113.20:80' }],
          nodePort: 30_050,
        },
      ],
    });
  });

  test.each([
    ['a ClusterIP', '10.96.0.50', 'web.iptables', 'its cluster address'],
    ['a ClusterIP with its port', '10.96.0.50:80', 'web.iptables', 'its cluster address'],
    ['a ClusterIP of IPv6', 'fd00:10:96::51', 'six.ip6tables', 'its cluster address'],
    ['the same with its port and protocol', '[fd00:10:96::51]:53/udp', 'six.ip6tables', 'its cluster address'],
    ['a load-balancer address', '203.0.113.20', 'web.iptables', 'its load-balancer address'],
    ['an endpoint', '10.244.1.5', 'web.iptables', 'one of its endpoints'],
  ] as const)('%s is the Service that has it', (_title, asked, path, meaning) => {
    const result = explain(dual, asked) as Explanation;
    expect(result).toMatchObject({ service: `shop/${path.split('.')[0]}`, meaning });
    expect(new Set(result.places.map((place) => place.file))).toEqual(new Set([file(path)]));
  });

  test.each(['shop/none', 'shop/web:https', '10.96.0.51', '10.96.0.50:81', '10.96.0.50:80/udp', '10.96.0.5'])(
    '%s is nowhere',
    (asked) => {
      expect(explain(dual, asked)).toBeUndefined();
    },
  );

  test('is found in mode ipvs, with its virtual server', () => {
    const place = { text: expect.stringMatching(/^-A -t 10\.96\.0\.10:80 /) as string };
    expect(explain(virtual, '10.96.0.10:80')).toMatchObject({ service: 'shop/web', meaning: 'its cluster address' });
    expect((explain(virtual, 'shop/web') as Explanation).places).toContainEqual(expect.objectContaining(place));
    expect((explain(virtual, '10.96.0.10:80') as Explanation).places).toContainEqual(expect.objectContaining(place));
  });
});

/** A Service at 10.96.0.50 with so many endpoints. */
function withEndpoints(count: number): string {
  const hash = 'A'.repeat(14);
  const digits = (n: number): string => `${'ABCDEFGHIJ'[Math.floor(n / 10)]}${'ABCDEFGHIJ'[n % 10]}`;
  const all = Array.from({ length: count }, (_, n) => ({
    chain: `KUBE-SEP-${hash}${digits(n)}`,
    to: `10.244.1.${n + 5}`,
  }));
  const own = 'KUBE-SVC-67NZLRHBNDSAWJRO';
  const lines = all.flatMap(({ chain: name, to }, n) => {
    const chance = n + 1 === count ? '' : ` -m statistic --mode random --probability ${(1 / (count - n)).toFixed(10)}`;
    return [
      `-A ${own}${chance} -j ${name}`,
      `-A ${name} -s ${to} -j KUBE-MARK-MASQ`,
      `-A ${name} -m tcp -p tcp -j DNAT --to-destination ${to}:8080`,
    ];
  });
  const leading = `-A KUBE-SERVICES -m comment --comment "shop/web:http cluster IP" -m tcp -p tcp -d 10.96.0.50 --dport 80 -j ${own}`;
  const declared = [own, ...all.map(({ chain: name }) => name)].map((name) => `:${name} - [0:0]`);
  return `${['*nat', ...declared, leading, ...lines, 'COMMIT'].join('\n')}\n`;
}

function programOf(files: typeof balancer): FamilyProgram {
  const node = resolveNode(files, 'node-1');
  if (!('version' in node)) throw new Error(node[0]?.message);
  const rules = fillRules(node.rules.ipv4 as ResolvedRules, { nodePortAddresses: [] });
  if ('code' in rules) throw new Error(rules.message);
  return settledProgram(linkTree(sectionsOf(rules), { family: 'ipv4', provideKubeChains: true }).program);
}

test.each([
  ['a frontend', '203.0.113.9 . tcp . 80', 'shop/gate', 'svc4 '],
  ['a frontend as the kernel has it', '10.96.0.10 . 6 . 80 : goto n2,', 'shop/web', 'svc4 '],
  ['a node port', '0.0.0.0 . tcp . 30090 : goto pn2', 'shop/gate', 'svc4 '],
  ['an endpoint', '10.96.0.10 . 80 . 1 : 10.244.2.7 . 8080', 'shop/web', 'tcp4 '],
  ['a range', '203.0.113.9 . tcp . 80 . 198.51.100.0/25', 'shop/gate', 'allow4 '],
  ['a line', 'add element inet sluice none4 { 10.96.0.40 . 6 . 80 : goto refuse }', 'shop/idle', 'none4 '],
] as const)('%s of mode nftables is the Service that has it', (_title, asked, service, set) => {
  const found = explain(nftBundle, asked);
  expect(found).toMatchObject({ service });
  const places = found && 'places' in found ? found.places : [];
  expect(places.some(({ text: line }) => line.includes(` ${set}`))).toBe(true);
  for (const { file, line, text: shown } of places) expect(nftBundle.get(file)?.split('\n')[line - 1]).toBe(shown);
});

test.each([
  ['near4', 'frontends with policy Local', 1],
  ['set tfw6 {', 'for a release on probation', 1],
  ['chain services4 {', 'leads new connections', 1],
  ['pn3b', 'lists of 3 of node ports', 0],
  ['m1009', 'by maglev 1009: the chain of all lists of 1009', 0],
  ['chain phl2b {', 'by source-hash: the chain of all local lists of 2 of node ports', 0],
  ['i3-0011223344556677', 'by round-robin: the chain of a list of one frontend of 3', 0],
  ['r2t600-known', 'local lists of 2, with session affinity for 600 s', 0],
] as const)('says what %s of mode nftables is for', (asked, meaning, places) => {
  const found = explain(nftBundle, asked);
  expect(found && 'places' in found ? [found.meaning, found.places.length] : found).toEqual([
    expect.stringContaining(meaning),
    places,
  ]);
});

test('an element that no file has is not found, and a bundle of another mode has none', () => {
  expect(explain(nftBundle, '10.96.0.11 . tcp . 80')).toBeUndefined();
  expect(explain(balancer, '10.96.0.10 . tcp . 80')).toMatchObject({ code: 'RULE_REFUSED' });
});

const localhostTable = printNftTable({
  detector: 'address',
  masqueradeAll: false,
  localhost: 'served',
  localhostListener: true,
});
const onLocalhost = new Map([...nftBundle, ['profiles/default/base/first.nft', localhostTable]]);

test('knows each chain, set and map of the table', () => {
  const names = Array.from(localhostTable.matchAll(/^ {2}(?:chain|set|map) (\S+) \{/gm), ([, name = '']) => name);
  expect(names.length).toBeGreaterThan(100);
  const unknown = names.filter((name) => {
    const found = explain(onLocalhost, name);
    return !found || 'code' in found || found.places.length === 0;
  });
  expect(unknown).toEqual([]);
});

test.each([
  [onLocalhost, '127.0.0.1:30090', 'profile default, tcp on 127.0.0.1: served by the table'],
  [onLocalhost, '127.0.0.2:30090/tcp', 'profile default, tcp on 127.0.0.2: left to programs of the node'],
  [nftBundle, '127.0.0.1:30090', 'profile default, tcp on 127.0.0.1: left to programs of the node'],
] as const)('says who answers at a node port of localhost', (files, asked, way) => {
  expect(explain(files, asked)).toMatchObject({ service: 'shop/gate', meaning: `its node port; ${way}` });
});

test('finds the Service of a node port at the address of a node', () => {
  expect(explain(nftBundle, '192.0.2.11:30090')).toMatchObject({ service: 'shop/gate', meaning: 'its node port' });
  expect(explain(nftBundle, '192.0.2.11:30090/udp')).toBeUndefined();
  expect(explain(nftBundle, '[fd00::11]:30090')).toBeUndefined();
});
