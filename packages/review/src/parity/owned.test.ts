import { expect, test } from 'vitest';
import { bundleOf } from '../example.fixture.ts';
import { observe, type SavedFiles, savedFiles } from './observed.fixture.ts';
import { traceLive } from '../trace/trace-live.ts';
import { parityOf } from './parity.ts';

const file = 'iptables-nft-save.txt';

/** Compares example 02 with a node that holds its rules and these besides, before all others. */
function reportWith(table: 'filter' | 'raw', rules: readonly string[], more: Readonly<Record<string, string>> = {}) {
  const files = bundleOf('02-node-port');
  const saved: SavedFiles = savedFiles(files, 'node-1');
  const named = rules.flatMap((rule) => rule.match(/(?<=^-A |-[jg] )[\w-]+/g) ?? []);
  const known = /^(?:INPUT|FORWARD|OUTPUT|PREROUTING|ACCEPT|DROP|REJECT|RETURN|MARK|CT|NOTRACK|CONNMARK|LOG)$/;
  const chains = [...new Set(named)].filter((name) => !known.test(name)).map((name) => `:${name} - [0:0]\n`);
  const own = `${chains.join('')}${rules.join('\n')}\n`;
  const text = saved.get(file) ?? '';
  const raw = `*raw\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n${own}COMMIT\n`;
  // Chains have to be declared before rules, and rules of other programs come first.
  const filter = text.replace(/^-A /m, () => `${own}-A `);
  saved.set(file, table === 'raw' ? `${raw}${text}` : filter);
  for (const [name, content] of Object.entries(more)) saved.set(name, content);
  const report = parityOf(files, observe('node-1', saved), 'node-1');
  return report;
}

const interfaces = {
  'ip-addr.txt':
    '2: eth0: <UP>\n    inet 192.0.2.11/24 scope global eth0\n3: cni0: <UP>\n    inet 10.244.1.1/24 scope global cni0\n',
  'ip-route.txt':
    'default via 192.0.2.1 dev eth0\n10.244.1.5 dev cali1111 scope link\n10.244.1.2 dev cali2222 scope link\n',
};

const stock = {
  Calico: [
    '-A FORWARD -m comment --comment "cali:wUHhoiAYhphO9Mso" -j cali-FORWARD',
    '-A cali-FORWARD -i cali+ -m comment --comment "cali:8ZoYfO5HKXWbB3pk" -j cali-from-wl-dispatch',
    '-A cali-from-wl-dispatch -i cali1111 -m comment --comment "cali:c" -j RETURN',
    '-A cali-from-wl-dispatch -m comment --comment "cali:e" -m comment --comment "Unknown interface" -j DROP',
  ],
  Cilium: [
    '-A FORWARD -m comment --comment "cilium-feeder: CILIUM_FORWARD" -j CILIUM_FORWARD',
    '-A CILIUM_FORWARD -m mark --mark 0x200/0xf00 -m comment --comment "cilium: proxy" -j DROP',
    '-A CILIUM_FORWARD -m comment --comment "cilium: others" -j DROP',
  ],
  'kube-router': [
    '-A FORWARD -d 10.244.1.5/32 -m comment --comment "jump traffic destined to POD name:web-1" -j KUBE-POD-FW-WEB',
    '-A KUBE-POD-FW-WEB -m mark ! --mark 0x10000/0x10000 -j REJECT --reject-with icmp-port-unreachable',
  ],
  Docker: [
    '-A FORWARD -j DOCKER-USER',
    '-A DOCKER-USER -j RETURN',
    '-A FORWARD -j DOCKER-ISOLATION-STAGE-1',
    '-A DOCKER-ISOLATION-STAGE-1 -j DROP',
  ],
  firewalld: ['-A FORWARD -j FORWARD_IN_ZONES', '-A FORWARD_IN_ZONES -g FWDI_public', '-A FWDI_public -j REJECT'],
  ufw: ['-A FORWARD -j ufw-reject-forward', '-A ufw-reject-forward -j REJECT --reject-with icmp-port-unreachable'],
  Istio: ['-A FORWARD -j ISTIO_FORWARD', '-A ISTIO_FORWARD -s 10.244.0.0/16 -j DROP'],
  'EKS (aws-node)': ['-A FORWARD -i eth0 -m comment --comment "AWS, primary ENI" -j DROP'],
  Antrea: ['-A FORWARD -m comment --comment "Antrea: jump" -j ANTREA-FORWARD', '-A ANTREA-FORWARD -j DROP'],
  Flannel: ['-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD', '-A FLANNEL-FWD -j DROP'],
  'Weave Net': ['-A FORWARD -j WEAVE-NPC', '-A WEAVE-NPC -j DROP'],
  'CNI plugins': ['-A FORWARD -j CNI-FORWARD', '-A CNI-FORWARD -j DROP'],
} satisfies Readonly<Record<string, readonly string[]>>;

test.each(Object.entries(stock))('rules of %s that refuse packets stay, so that they are no difference', (_, rules) => {
  const report = reportWith('filter', rules, interfaces);
  expect(report.differences).toEqual([]);
  expect(report.result).toBe('equivalent');
});

test('NodeLocal DNSCache leaves its packets untracked on both sides', () => {
  const rules = ['PREROUTING', 'OUTPUT'].map(
    (chain) =>
      `-A ${chain} -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -m comment --comment "NodeLocal DNS Cache: skip conntrack" -j CT --notrack`,
  );
  expect(reportWith('raw', rules).result).toBe('equivalent');
});

test.each(Object.entries(stock))('the same rules as those of %s, of no known owner, are a difference', (_, rules) => {
  const others = rules.map((rule) =>
    rule
      .replaceAll(
        /(?<=-A |-[jg] )(?!INPUT|FORWARD|DROP|REJECT|RETURN|ACCEPT)[\w-]+/g,
        (name) => `X${name.length}${name.slice(-3)}`,
      )
      .replaceAll(/ -m comment --comment "[^"]*"/g, '')
      .replaceAll(/ -i cali\S+/g, ''),
  );
  // Without its interfaces the first rule of Calico's chain returns all packets.
  const given = others.filter((rule) => !rule.endsWith(' -j RETURN'));
  expect(reportWith('filter', given, interfaces).result).toBe('different');
});

test('a translation of a known owner is named with it, and no rule is to be removed', () => {
  const adviceTo = (rules: readonly string[]) => {
    const files = bundleOf('02-node-port');
    const saved: SavedFiles = savedFiles(files, 'node-1');
    const text = (saved.get(file) ?? '').replace(
      /(?<=^\*nat\n[^]*?)^-A /m,
      () => `:CNI-HOSTPORT-DNAT - [0:0]\n${rules.join('\n')}\n-A `,
    );
    saved.set(file, text);
    const report = parityOf(files, observe('node-1', saved), 'node-1');
    return [...new Set(report.differences.map(({ cause, advice }) => `${cause}: ${advice}`))];
  };
  const dnat = '-p tcp -m tcp --dport 30080 -j DNAT --to-destination 10.244.1.77:80';
  const owned = adviceTo([
    '-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT',
    `-A CNI-HOSTPORT-DNAT ${dnat}`,
  ]);
  expect(owned).toEqual([
    expect.stringMatching(/^foreign-rule: It is a rule of the CNI plugins, for host ports .* and stays: /),
  ]);
  expect(adviceTo([`-A PREROUTING ${dnat}`])).toEqual([
    expect.stringMatching(/^foreign-rule: No known program has such a rule\. /),
  ]);
});

test.each([
  ['no known program', ['-A FORWARD -j ACCEPT', '-A OUTPUT -j ACCEPT'], /^A foreign rule accepts packets before /],
  ['firewalld', ['-A FORWARD -j FWD_public', '-A FWD_public -j ACCEPT'], /^A rule of firewalld, for .* accepts /],
])('an accept of %s before rules that refuse is named, behind them it is no cause', (_title, rules, advice) => {
  const files = bundleOf('07-policies');
  const causesWith = (change: (text: string) => string) => {
    const saved = savedFiles(files, 'node-1');
    saved.set(file, change(saved.get(file) ?? ''));
    const report = parityOf(files, observe('node-1', saved), 'node-1');
    return [...new Set(report.differences.map((one) => `${one.cause}: ${one.advice}`))];
  };
  const chain = rules.some((rule) => rule.includes('FWD_public')) ? ':FWD_public - [0:0]\n' : '';
  const before = causesWith((text) => text.replace(/^-A /m, () => `${chain}${rules.join('\n')}\n-A `));
  expect(before.length).toBeGreaterThan(0);
  for (const one of before) expect(one.replace('foreign-rule: ', '')).toMatch(advice);
  const behind = (text: string): string => text.replace('COMMIT', () => `${rules.join('\n')}\nCOMMIT`);
  const declared = (text: string): string => text.replace(/^-A /m, () => `${chain}-A `);
  expect(causesWith((text) => behind(declared(text)))).toEqual([]);
  const without = causesWith((text) => behind(declared(text)).replaceAll(/^-A .* -d 10\.96\.0\.73\/32 .*\n/gm, ''));
  expect(without.length).toBeGreaterThan(0);
  for (const one of without) expect(one).toMatch(/^objects: /);
});

test('packets of interfaces that the node does not have are not tried', () => {
  const rules = ['-A FORWARD -i wg+ -j DROP', '-A FORWARD -i tun7 -j DROP'];
  expect(reportWith('filter', rules, interfaces).result).toBe('equivalent');
  expect(reportWith('filter', ['-A FORWARD -i cali+ -j DROP'], interfaces).result).toBe('different');
});

test.each(['0.0.0.0/8', '224.0.0.0/4', '192.0.2.11/32'])('no packet arrives by a wire from %s', (network) => {
  expect(reportWith('filter', [`-A FORWARD -s ${network} -j DROP`], interfaces).result).toBe('equivalent');
});

test('a network that begins with martians is tried with another address', () => {
  expect(reportWith('filter', ['-A FORWARD -s 0.0.0.0/2 -j DROP'], interfaces).result).toBe('different');
});

/** Outputs of a node whose rules of Services are not among those that were saved. */
test.each([
  ['of another listing', '-P INPUT ACCEPT\n'],
  ['of table nat alone', '*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n'],
  ['that were cut', '*filter\n:INPUT ACCEPT [0:0]\n'],
  ['that were not saved', undefined],
])('of rules %s nothing is called different, and no packet is traced', (_title, text) => {
  const files = bundleOf('02-node-port');
  const saved = savedFiles(files, 'node-1');
  if (text === undefined) saved.delete(file);
  else saved.set(file, text);
  const seen = observe('node-1', saved);
  const report = parityOf(files, seen, 'node-1');
  expect(report).toMatchObject({ result: 'incomplete', differences: [] });
  const to = { family: 'ipv4', destination: '10.96.0.10', protocol: 'tcp', port: 80 } as const;
  const traced = (): unknown => traceLive(seen, { ...to, from: '10.244.1.9' }, () => undefined);
  expect(traced).toThrow('rules-nft-ipv4 was not read');
});
