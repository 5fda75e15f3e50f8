import { expect, test } from 'vitest';
import { resolveNode } from '../node.ts';
import { onKernel, parseKernelRelease } from '../../../netfilter/src/rules/kernel.ts';
import { edited, ipvsBundle, ipvsNode } from './bundle.fixture.ts';
import { ipvsHost, readIpvs } from '../../../netfilter/src/virtual/state.ts';

const real = (on: string, key: string): readonly string[] => [
  ...(ipvsNode(on).ipvs.virtualServers.get(key)?.real.keys() ?? []),
];

test('a node has the servers, entries, addresses and time-outs of its lines', () => {
  const { ipvs } = ipvsNode('node-a');
  expect([...ipvs.virtualServers.keys()]).toEqual([
    '10.96.0.99:80/TCP',
    '10.96.0.10:80/TCP',
    '192.0.2.50:80/TCP',
    '203.0.113.9:80/TCP',
    '192.0.2.11:30080/TCP',
  ]);
  expect(ipvs.addresses).toEqual({ ipv4: ['10.96.0.10', '10.96.0.99', '192.0.2.50', '203.0.113.9'], ipv6: [] });
  expect(ipvs.timeouts).toEqual({ tcp: 900, tcpFin: 120, udp: 300 });
  expect([...(ipvs.sets.get('KUBE-LOOP-BACK')?.entries ?? [])]).toEqual(['10.244.1.5,tcp:8080,10.244.1.5']);
  expect(ipvs.sets.size).toBe(17);
});

test('local endpoints serve alone where there are any, and all serve where there are none', () => {
  expect(real('node-a', '203.0.113.9:80/TCP')).toEqual(['10.244.1.5:8080']);
  expect(real('node-b', '203.0.113.9:80/TCP')).toEqual(['10.244.1.5:8080', '10.244.2.6:8080']);
});

test('guards of node ports are evaluated before the addresses are known', () => {
  const name = '${host.nodePortAddresses}:30080';
  const files = edited('services/shop/web.ipvs', (text) =>
    text
      .replace(`-a -t ${name}`, `@node=node-a -a -t ${name}`)
      .concat(`@nolocal=${name}/TCP -a -t ${name} -r 10.244.3.7:8080 -m -w 1\n`),
  );
  const of = (node: string, key: string): readonly string[] => [
    ...(ipvsNode(node, files).ipvs.virtualServers.get(key)?.real.keys() ?? []),
  ];
  expect(of('node-a', '192.0.2.11:30080/TCP')).toEqual(['10.244.2.6:8080']);
  expect(of('node-b', '192.0.2.12:30080/TCP')).toEqual(['10.244.3.7:8080']);
});

test('a real server is left out with its virtual server', () => {
  const files = edited('services/shop/web.ipvs', (text) => text.replace('-A -t 10.96.0.10', '@node=node-b $&'));
  expect(ipvsNode('node-a', files).ipvs.virtualServers.has('10.96.0.10:80/TCP')).toBe(false);
  expect(ipvsNode('node-b', files).ipvs.virtualServers.get('10.96.0.10:80/TCP')?.real.size).toBe(2);
});

test('a node port that is open on no address has no entry, also where a ClusterIP has a port of its number', () => {
  const files = edited('services/shop/web.ipvs', (text) => `${text}-A -t 10.96.0.10:30080 -s rr\n`);
  const { resolved } = ipvsNode('node-a', files);
  const entries = (nodePortAddresses: readonly string[]): readonly string[] => {
    const host = ipvsHost({ nodePortAddresses }, { ipv4: ['192.0.2.11'], ipv6: [] });
    const ipvs = readIpvs(resolved.ipvs ?? { ipset: [], ipvs: [] }, ['ipv4'], host);
    if ('problems' in ipvs) throw new Error(JSON.stringify(ipvs));
    return [...(ipvs.sets.get('KUBE-NODE-PORT-TCP')?.entries ?? [])];
  };
  expect(entries(['192.0.2.0/24'])).toEqual(['30080']);
  expect(entries(['127.0.0.0/8'])).toEqual([]);
});

test('an address of another interface is neither bound nor in the set', () => {
  const { resolved } = ipvsNode('node-a');
  const host = ipvsHost(resolved.profile, { ipv4: ['192.0.2.11', '192.0.2.50'], ipv6: [] });
  const ipvs = readIpvs(resolved.ipvs ?? { ipset: [], ipvs: [] }, ['ipv4'], host);
  if ('problems' in ipvs) throw new Error(JSON.stringify(ipvs));
  expect(ipvs.addresses.ipv4).toEqual(['10.96.0.10', '10.96.0.99', '203.0.113.9']);
  expect(ipvs.sets.get('KUBE-IPVS-IPS')?.entries.has('192.0.2.50')).toBe(false);
  expect(ipvs.sets.get('KUBE-EXTERNAL-IP')?.entries.has('192.0.2.50,tcp:80')).toBe(true);
});

test.each([
  ['every address of the machine', [], ['192.0.2.11', '198.51.100.4'], ['fd00::11']],
  ['those of one network', ['198.51.100.0/24'], ['198.51.100.4'], []],
] as const)('node ports are open on %s, never on loopback and link-local ones', (_title, nodePortAddresses, v4, v6) => {
  const host = ipvsHost(
    { nodePortAddresses },
    { ipv4: ['127.0.0.1', '192.0.2.11', '198.51.100.4'], ipv6: ['::1', 'fe80::1', 'fd00::11'] },
  );
  expect([host.ipv4.nodePortAddresses, host.ipv6.nodePortAddresses]).toEqual([v4, v6]);
});

test('the version is that of the resolved lines: comments do not count, entries do', () => {
  const version = (files: ReadonlyMap<string, string>): string => ipvsNode('node-a', files).resolved.version;
  const web = 'services/shop/web.ipset';
  expect(version(edited(web, (text) => text.replace('# shop/web', '# the web of the shop')))).toBe(version(ipvsBundle));
  expect(version(edited(web, (text) => `${text}@node=node-b add KUBE-NODE-PORT-UDP 30053\n`))).toBe(
    version(ipvsBundle),
  );
  expect(version(edited(web, (text) => `${text}@node=node-a add KUBE-NODE-PORT-UDP 30053\n`))).not.toBe(
    version(ipvsBundle),
  );
});

const service = 'services/shop/web';
test.each([
  [
    'a set that a Service creates',
    `${service}.ipset`,
    'create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536',
    'start with add',
  ],
  ['an entry in a base file', 'base/first.ipset', 'add KUBE-IPVS-IPS 10.0.0.1', 'start with create'],
  ['a guard in a base file', 'base/first.ipset', '@node=a create KUBE-IPVS-IPS x', 'no guard'],
  ['time-outs of a Service', `${service}.ipvs`, '--set 1 2 3', 'start with -A or -a'],
  ['time-outs twice', 'base/first.ipvs', '--set 1 2 3', 'one line'],
  [
    'a real server without its virtual server',
    `${service}.ipvs`,
    '-a -t 10.96.0.77:80 -r 10.0.0.1:80 -m -w 1',
    'no earlier line declares',
  ],
  ['a virtual server twice', `${service}.ipvs`, '-A -t 10.96.0.10:80 -s lc', 'declared twice'],
  [
    'a guard with an undeclared server',
    `${service}.ipvs`,
    '@local=10.96.0.77:80/TCP -a -t 10.96.0.10:80 -r 10.0.0.1:80 -m -w 1',
    'no earlier line declares',
  ],
  [
    'a guard @local of a virtual server',
    `${service}.ipvs`,
    '@local=10.96.0.10:80/TCP -A -t 10.96.0.78:80 -s rr',
    'only real servers',
  ],
  ['a guard @kernel', `${service}.ipvs`, '@kernel=4.1..5.8 -A -t 10.96.0.78:80 -s rr', 'neither a rule'],
  ['an unknown variable', `${service}.ipset`, 'add KUBE-IPVS-IPS ${node.name}', 'not a variable'],
  ['a comment after lines', `${service}.ipset`, '# more', 'after the header'],
  ['a family that the profile lacks', `${service}.ipset`, 'add KUBE-6-IPVS-IPS fd00::1', 'no ipv6'],
  ['a byte that is no ASCII', `${service}.ipset`, 'add KUBE-IPVS-IPS 10.0.0.1é', 'printable ASCII'],
])('%s is refused with its place', (_title, path, line, reason) => {
  const text = ipvsBundle.get(`profiles/default/${path}`) ?? '';
  const problems = resolveNode(
    edited(path, () => `${text}${line}\n`),
    'node-a',
  );
  if ('version' in problems) throw new Error('it was taken');
  expect(problems).toHaveLength(1);
  expect(problems[0]).toMatchObject({ code: 'RULE_REFUSED', at: { file: `profiles/default/${path}` } });
  expect(problems[0]?.at?.line).toBe(text.split('\n').length);
  expect(problems[0]?.message).toContain(reason);
});

test.each([
  ['one of two Services', 'services/shop/idle.ipvs', '-A -t 10.96.0.10:80 -s rr', 'declared twice'],
  ['a real server that is there', `${service}.ipvs`, '-a -t 10.96.0.10:80 -r 10.244.1.5:8080 -m -w 1', 'twice'],
  ['an entry outside the grammar', `${service}.ipset`, 'add KUBE-IPVS-IPS 10.0.0.0/8', 'not a valid entry'],
])('a state with %s is refused', (_title, path, line, reason) => {
  expect(() =>
    ipvsNode(
      'node-a',
      edited(path, (text) => `${text}${line}\n`),
    ),
  ).toThrow(reason);
});

test('a missing set that rules may match is refused', () => {
  const files = edited('base/first.ipset', (text) => text.replace(/^create KUBE-LOOP-BACK .*\n/m, ''));
  expect(() => ipvsNode('node-b', files)).toThrow('KUBE-LOOP-BACK');
});

test('files of mode ipvs are refused in a profile of mode iptables', () => {
  const files = edited('profile.yaml', (text) => text.replace(/mode: ipvs\nipvs:.*\n/, 'mode: iptables\n'));
  expect(JSON.stringify(resolveNode(files, 'node-a'))).toContain('not in mode ipvs');
});

test('a chain of the other mode is refused', () => {
  const files = edited('services/shop/web.iptables', (text) =>
    text.replaceAll('KUBE-IPVS-OUT-FILTER', 'KUBE-SERVICES'),
  );
  expect(JSON.stringify(resolveNode(files, 'node-a'))).toContain('must not append');
});

test.each([
  ['4.0.9', undefined],
  ['4.1.0', 'a = 0'],
  ['5.8.18-generic', 'a = 0'],
  ['5.9.0-rc1', undefined],
  ['5.10', undefined],
  ['6.1.0-44-cloud-amd64', undefined],
])('a line for kernels 4.1 to 5.8 on %s: %s', (release, text) => {
  const parsed = parseKernelRelease(release);
  expect(parsed && onKernel('@kernel=4.1..5.8 a = 0', parsed)).toBe(text);
});

test.each(['@kernel=5.8..4.1 a = 0', '@kernel=4.1 a = 0', '@kernel=4..5 a = 0', '@node=x a = 0'])(
  'the sysctl line %s is refused with its place',
  (line) => {
    const problems = resolveNode(
      edited('base/sysctl.conf', (text) => `${text}${line}\n`),
      'node-a',
    );
    expect(problems).toMatchObject([{ code: 'BUNDLE_INVALID', at: { line: 3 } }]);
  },
);
