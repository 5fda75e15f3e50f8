import type { ParityReport } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { printParity } from '../emit/parity/print.ts';
import { bundleOf } from '../example.fixture.ts';
import { compared, edit, node, nftJson, observe, type SavedFiles, savedFiles } from './observed.fixture.ts';
import { parityOf } from './parity.ts';
import { newSince } from '../commands/parity/parity.ts';

const examples = [
  '01-cluster-ip',
  '02-node-port',
  '03-load-balancer',
  '04-affinity-and-udp',
  '05-dual-stack',
  '06-zones',
  '07-policies',
] as const;

test.each(examples.flatMap((example) => [[example, 'flat'] as const, [example, 'tree'] as const]))(
  '%s: rules in layout %s are equivalent to their bundle',
  (example, layout) => {
    const report = compared(example, undefined, layout);
    expect(report.differences).toEqual([]);
    expect(report.result).toBe('equivalent');
    expect(report.coverage.cases).toBeGreaterThan(10);
  },
);

test('virtual servers are equivalent to their bundle, and another weight is found', () => {
  expect(compared('10-ipvs')).toMatchObject({
    result: 'equivalent',
    differences: [],
    modes: { observed: ['ipvs'], desired: 'ipvs' },
  });
  const { differences, result } = compared('10-ipvs', (saved) => {
    saved.set(
      'ipvsadm.txt',
      (saved.get('ipvsadm.txt') ?? '').replace('-r 10.244.1.5:8080 -m -w 3', '-r 10.244.1.5:8080 -m -w 2'),
    );
  });
  expect(result).toBe('different');
  expect(new Set(differences.map(({ cause }) => cause))).toEqual(new Set(['bug']));
});

test('a virtual server of a form that is not read is named, where it is a frontend', () => {
  const servers = (text: string) => (saved: SavedFiles) =>
    saved.set('ipvsadm.txt', `${saved.get('ipvsadm.txt')}${text}`);
  const direct = (address: string): string => `-A -t ${address} -s rr\n-a -t ${address} -r 10.244.1.5:8080 -g -w 1\n`;
  const gapsAt = (address: string) => {
    const { result, coverage } = compared('10-ipvs', servers(direct(address)));
    return { result, named: coverage.notCovered.filter(({ matters }) => matters).map(({ what }) => what) };
  };
  expect(gapsAt('10.96.0.20:80').named).toEqual(['virtual server 10.96.0.20:80/TCP']);
  expect(gapsAt('192.0.2.99:80')).toEqual({ result: 'equivalent', named: [] });
});

test.each<[string, string, (saved: SavedFiles) => void, string, RegExp]>([
  [
    'a wrong endpoint',
    '01-cluster-ip',
    edit('--to-destination 10.244.2.5:8080', '--to-destination 10.244.2.99:8080'),
    'objects',
    /^10\.96\.0\.10:80\/tcp$/,
  ],
  [
    'a missing masquerade',
    '01-cluster-ip',
    edit(/^-A KUBE-SEP-\S+ -s 10\.244\.1\.5\/32 .*\n/m, ''),
    'bug',
    /^10\.96\.0\.10:80\/tcp$/,
  ],
  [
    'a foreign translation',
    '01-cluster-ip',
    edit(
      '-A PREROUTING',
      '-A PREROUTING -d 10.96.0.10/32 -p tcp -j DNAT --to-destination 192.0.2.99:80\n-A PREROUTING',
    ),
    'foreign-rule',
    /^10\.96\.0\.10:/,
  ],
  [
    'a foreign drop',
    '01-cluster-ip',
    edit('-A FORWARD', '-A FORWARD -d 10.244.2.5/32 -j DROP\n-A FORWARD'),
    'foreign-rule',
    /^10\.96\.0\.10:80\/tcp$/,
  ],
  ['another time of affinity', '04-affinity-and-udp', edit(/--seconds \d+/g, '--seconds 77'), 'objects', /./],
  [
    'a frontend that is gone',
    '01-cluster-ip',
    edit(/^-A KUBE-SERVICES -d 10\.96\.0\.10\/32 .*\n/m, ''),
    'objects',
    /^10\.96\.0\.10:80\/tcp$/,
  ],
])('%s is found, with its cause', (_title, example, change, cause, frontend) => {
  const { differences, result } = compared(example, change);
  expect(result).toBe('different');
  expect(new Set(differences.map((one) => one.cause))).toEqual(new Set([cause]));
  for (const one of differences) expect(one.frontend).toMatch(frontend);
});

test('an accept of another table, behind which nothing drops, is no difference', () => {
  const accepting = (saved: SavedFiles): void => {
    const of = { family: 'inet', table: 'other' };
    const chain = { ...of, name: 'c', type: 'filter', hook: 'output', prio: -5, policy: 'accept' };
    const isTcp = { match: { op: '==', left: { meta: { key: 'l4proto' } }, right: 'tcp' } };
    const listed = [{ table: { family: 'inet', name: 'other' } }, { chain }];
    const rule = { ...of, chain: 'c', expr: [isTcp, { accept: null }] };
    saved.set('nft.json', nftJson([...listed, { rule }]));
  };
  expect(compared('02-node-port', accepting)).toMatchObject({ result: 'equivalent', differences: [] });
});

test('a drop of later packets of one protocol is found', () => {
  const drop = '-A FORWARD -p udp -m conntrack --ctstate ESTABLISHED -j DROP';
  const { differences } = compared('01-cluster-ip', edit('-A FORWARD', `${drop}\n-A FORWARD`));
  expect(differences).toMatchObject([
    { frontend: 'established connections', cause: 'foreign-rule', rule: drop, packet: { protocol: 'udp' } },
  ]);
});

test('node ports on localhost are dropped without route_localnet', () => {
  const { differences } = compared('02-node-port', (saved) => {
    const lines = ['all', 'default'].map((name) => `net.ipv4.conf.${name}.route_localnet = 0\n`);
    saved.set('sysctl.txt', lines.join(''));
  });
  expect(differences.length).toBeGreaterThan(0);
  for (const { frontend, observed } of differences) {
    expect(frontend).toMatch(/^localhost /);
    expect(observed).toContain('drop');
  }
});

const withAddresses =
  (...addresses: readonly string[]) =>
  (saved: SavedFiles): void => {
    const lines = ['192.0.2.11', ...addresses].map(
      (one, at) => `${at + 2}: dev${at}: <UP>\n    inet ${one}/24 scope global dev${at}\n`,
    );
    saved.set('ip-addr.txt', lines.join(''));
  };

test('node ports are compared at the other addresses of a node, too', () => {
  const usual = compared('02-node-port');
  const report = compared('02-node-port', withAddresses('10.244.1.1', '169.254.20.10'));
  expect(report).toMatchObject({ result: 'equivalent', differences: [] });
  expect(report.coverage.cases).toBeGreaterThan(usual.coverage.cases);
  const drop = '-A INPUT -d 10.244.1.1/32 -p tcp -j DROP';
  const { differences } = compared('02-node-port', (saved) => {
    withAddresses('10.244.1.1')(saved);
    saved.set(
      'iptables-legacy-save.txt',
      `*mangle\n:PREROUTING ACCEPT\n${drop.replace('INPUT', 'PREROUTING')}\nCOMMIT\n`,
    );
  });
  expect(differences.length).toBeGreaterThan(0);
  for (const { frontend, cause, packet } of differences) {
    expect({ frontend, cause }).toMatchObject({
      frontend: expect.stringMatching(/^node port /),
      cause: 'foreign-rule',
    });
    expect(packet.to).toBe('10.244.1.1');
  }
});

test('of many addresses of a node the first of each that is treated alike is tried', () => {
  const many = Array.from({ length: 40 }, (_, n) => `10.9.${n}.1`);
  const casesWith = (...addresses: readonly string[]): number =>
    compared('02-node-port', withAddresses(...addresses)).coverage.cases;
  expect(casesWith(...many)).toBe(casesWith('10.9.0.1'));
});

test('a rule that is not understood makes the result incomplete, with its place', () => {
  const rule = '-A FORWARD -m u32 --u32 0x0 -j DROP';
  const { coverage, result } = compared('01-cluster-ip', edit('-A FORWARD', `${rule}\n-A FORWARD`));
  expect(result).toBe('incomplete');
  expect(coverage.notCovered.filter(({ matters }) => matters)).toMatchObject([
    { what: rule, at: `observed.json:${rule.length}`, why: 'option --u32 of -m u32 is not read' },
  ]);
});

test('a rule for later packets that is not understood is named, too', () => {
  const rule = '-A FORWARD -m conntrack --ctstate ESTABLISHED -m u32 --u32 0x0 -j DROP';
  const { coverage, result } = compared('02-node-port', edit('-A FORWARD', `${rule}\n-A FORWARD`));
  expect(result).toBe('incomplete');
  expect(coverage.notCovered.filter(({ matters }) => matters)).toMatchObject([{ what: rule, cases: 6 }]);
});

test.each([
  ['of any connection', '-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j DROP', 'FORWARD'],
  ['of what pods answer the node itself', '-A INPUT -s 10.244.1.0/24 -p tcp -j DROP', 'INPUT'],
])('a drop of later packets by another program is found: %s', (_title, rule, chain) => {
  const { differences } = compared('02-node-port', edit(`-A ${chain}`, `${rule}\n-A ${chain}`));
  expect(differences).toMatchObject([
    { frontend: 'established connections', cause: 'foreign-rule', rule, packet: { state: 'established' } },
  ]);
});

test('a file of another node makes the result incomplete, although the rules of both are the same', () => {
  const at = (...addresses: readonly string[]): ParityReport =>
    compared('01-cluster-ip', (saved) => {
      const lines = addresses.map((one, n) => `${n + 2}: eth${n}: <UP>\n    inet ${one}/24 scope global eth${n}\n`);
      saved.set('ip-addr.txt', lines.join(''));
    });
  const { coverage, result } = at('192.0.2.12');
  expect(result).toBe('incomplete');
  expect(coverage.notCovered.filter(({ matters }) => matters)).toMatchObject([
    { what: 'address 192.0.2.11 of node node-1', why: expect.stringContaining('is this of node-2?') },
  ]);
  // An address that the Node has is enough, and one of no Node says nothing.
  for (const addresses of [['192.0.2.11', '192.0.2.12'], ['198.51.100.1'], []])
    expect(at(...addresses).coverage.notCovered.filter(({ matters }) => matters)).toEqual([]);
});

test('a family that the node serves and the bundle does not is named', () => {
  const files = new Map(
    [...bundleOf('01-cluster-ip')]
      .filter(([path]) => !path.endsWith('.ip6tables'))
      .map(([path, text]) => [path, text.replace('\n  - ipv6', '')] as const),
  );
  const of = (change: (text: string) => string) => {
    const saved = savedFiles(files, node);
    saved.set('ip6tables-nft-save.txt', change(rulesOfSix));
    const report = parityOf(files, observe(node, saved), node);
    return report;
  };
  const rulesOfSix = `*filter
:INPUT ACCEPT [0:0]
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-A - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A KUBE-SERVICES -d fd00:96::a/128 -p tcp -m tcp --dport 80 -j KUBE-SVC-A
-A KUBE-SVC-A -p tcp -j DNAT --to-destination [fd00:10::5]:8080
COMMIT
`;
  const { coverage, result } = of((text) => text);
  expect(result).toBe('incomplete');
  expect(coverage.notCovered.filter(({ matters }) => matters)).toMatchObject([{ what: 'frontends of ipv6', cases: 1 }]);
  // kube-proxy has chains of both families also where no Service has an address of one.
  expect(of((text) => text.replace(/^-A KUBE-S.*\n/gm, ''))).toMatchObject({ result: 'equivalent' });
});

test.each(['ipvsadm.txt', 'ip-addr.txt'])(
  'in mode ipvs a missing %s is said to matter, in another mode not',
  (name) => {
    const mattering = (example: string) => {
      const { coverage } = compared(example, (saved) => void saved.delete(name));
      return coverage.notCovered.filter(({ matters }) => matters).map(({ what }) => what);
    };
    expect(mattering('10-ipvs')).toEqual([name === 'ip-addr.txt' ? 'addresses' : 'servers']);
    expect(mattering('01-cluster-ip')).toEqual([]);
  },
);

test('a missing store makes the result incomplete', () => {
  const { coverage, result } = compared('01-cluster-ip', (saved) => saved.delete('iptables-legacy-save.txt'));
  expect(result).toBe('incomplete');
  expect(coverage.notCovered.filter(({ matters }) => matters).map(({ what }) => what)).toEqual(['rules-legacy-ipv4']);
});

test('ids of differences are those of the run before', () => {
  const ids = (): readonly string[] =>
    compared(
      '01-cluster-ip',
      edit('--to-destination 10.244.2.5:8080', '--to-destination 10.244.2.99:8080'),
    ).differences.map(({ id }) => id);
  expect(ids()).toEqual(ids());
  expect(new Set(ids()).size).toBe(ids().length);
});

test('each rule that drops later packets is a difference, which an exception for another one does not cover', () => {
  const drop = (protocol: string): string => `-A FORWARD -p ${protocol} -m conntrack --ctstate ESTABLISHED -j DROP`;
  const withRules = (...protocols: readonly string[]): ParityReport =>
    compared('01-cluster-ip', edit('-A FORWARD', [...protocols.map(drop), '-A FORWARD'].join('\n')));
  const [udp] = withRules('udp').differences;
  const both = withRules('udp', 'tcp').differences;
  expect(new Set(both.map(({ rule }) => rule))).toEqual(new Set([drop('tcp'), drop('udp')]));
  expect(both).toHaveLength(2);
  expect(both.find(({ rule }) => rule === drop('udp'))?.id).toBe(udp?.id);
  expect(withRules('sctp').differences[0]?.id).not.toBe(udp?.id);
});

test('an id is of all sources and of the rule: an exception covers no further one', () => {
  const withRule = (rule: string) => {
    const [one, ...others] = compared('01-cluster-ip', edit('-A FORWARD', `${rule}\n-A FORWARD`)).differences.filter(
      ({ frontend, source }) => frontend === '10.96.0.10:80/tcp' && source.class !== 'endpoint',
    );
    expect(others).toEqual([]);
    return { id: one?.id, sources: 1 + (one?.alsoFrom.length ?? 0) };
  };
  const narrow = withRule('-A FORWARD -s 10.244.1.0/24 -d 10.244.2.5/32 -j DROP');
  const wide = withRule('-A FORWARD -d 10.244.2.5/32 -j DROP');
  expect(narrow.sources).toBeLessThan(wide.sources);
  expect(narrow.id).not.toBe(wide.id);
  expect(withRule('-A FORWARD -d 10.244.2.5/32 -m comment --comment other -j DROP').id).not.toBe(wide.id);
});

test('a rule with thousands of addresses is cut in the report', () => {
  const addresses = Array.from({ length: 5_000 }, (_, n) => `198.51.${n >> 8}.${n & 255}`).join(',');
  const { differences } = compared('01-cluster-ip', (saved) => {
    const of = { family: 'ip', table: 'other' };
    const chain = { ...of, name: 'c', type: 'filter', hook: 'forward', prio: 0, policy: 'accept' };
    const match = {
      left: { payload: { protocol: 'ip', field: 'daddr' } },
      op: '!=',
      right: { set: addresses.split(',') },
    };
    const rule = { ...of, chain: 'c', expr: [{ match }, { drop: null }] };
    saved.set('nft.json', nftJson([{ chain }, { rule }]));
  });
  expect(differences.length).toBeGreaterThan(0);
  for (const { rule = '', advice } of differences) {
    expect(rule.length + advice.length).toBeLessThan(5_000);
    expect(rule).toContain('198.51.0.9');
  }
});

test('with a bundle before a change only what the change makes different is left', () => {
  const files = bundleOf('01-cluster-ip');
  const saved = savedFiles(files, node);
  edit('-A FORWARD', '-A FORWARD -d 10.244.2.5/32 -p udp -j DROP\n-A FORWARD')(saved);
  edit('-d 10.96.0.10/32', '-d 10.96.0.77/32')(saved);
  const changed = new Map(
    [...files].map(([path, text]) => [path, text.replaceAll('10.244.1.5', '10.244.1.55')] as const),
  );
  const reportOf = (bundle: typeof files): ParityReport => {
    const report = parityOf(bundle, observe(node, saved), node);
    return report;
  };
  const [before, after] = [reportOf(files), reportOf(changed)];
  const { differences, base, result } = newSince(before, after);
  expect(before.differences.map(({ frontend }) => frontend)).toContain('10.96.0.77:80/tcp');
  expect(base).toEqual({ version: before.version, known: after.differences.length - differences.length });
  expect(base?.known).toBeGreaterThan(0);
  expect(result).toBe('different');
  expect(new Set(differences.map(({ frontend }) => frontend))).toEqual(new Set(['10.96.0.10:80/tcp']));
  expect(newSince(after, after)).toMatchObject({ result: 'equivalent', differences: [] });
});

test('each node has a run of its own in SARIF', () => {
  const of = { report: compared('01-cluster-ip'), observed: 'seen.json', fileOf: () => undefined };
  const { runs } = JSON.parse(printParity(of, 'sarif')) as { runs: [{ automationDetails: { id: string } }] };
  expect(runs[0].automationDetails.id).toBe(`parity/${node}/`);
});

test('source NAT of other programs stays on both sides', () => {
  const masquerade = '-A POSTROUTING -s 10.244.0.0/16 ! -d 10.244.0.0/16 -j MASQUERADE';
  expect(compared('01-cluster-ip', edit('-A POSTROUTING', `${masquerade}\n-A POSTROUTING`)).differences).toEqual([]);
});

test('the formats agree on what was found', () => {
  const report = compared(
    '01-cluster-ip',
    edit('--to-destination 10.244.2.5:8080', '--to-destination 10.244.2.99:8080'),
  );
  const of = { report, observed: 'seen.json', fileOf: () => 'rendered/web.iptables' };
  const { runs } = JSON.parse(printParity(of, 'sarif')) as { runs: [{ results: { ruleId: string }[] }] };
  expect(runs[0].results).toHaveLength(report.differences.length);
  expect(runs[0].results[0]?.ruleId).toBe('parity-objects');
  expect(printParity(of, 'junit')).toContain(`failures="${report.differences.length}"`);
  const text = printParity(of, 'text');
  for (const { id, observed } of report.differences) {
    expect(text).toContain(id);
    expect(text).toContain(observed);
  }
  expect(text).toContain(`${node}: different: ${report.differences.length} objects`);
});

test('the name of a chain does not matter, also where its rules remember clients', () => {
  const { result, differences } = compared(
    '04-affinity-and-udp',
    (saved) => {
      const text = saved.get('iptables-nft-save.txt') ?? '';
      const [name = ''] = /(?<=^:)SLU-SEP-\S+/m.exec(text) ?? [];
      saved.set('iptables-nft-save.txt', text.replaceAll(name, 'SLU-SEP-Ego.LHSXCI2UBAT7E35'));
    },
    'tree',
  );
  expect(differences).toEqual([]);
  expect(result).toBe('equivalent');
});
