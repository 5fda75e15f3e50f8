import type { Guard } from '@sluice/bundle';
import { isRuleError, readRule, setKeys, setName } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import type { Profile } from '../../model/config.ts';
import { profileWith } from '../sample.fixture.ts';
import { firstIpvsRules, lastIpvsRules } from './base.ts';
import { createText, SetSizes, timeoutsText } from './files.ts';

const ipvs = {
  scheduler: 'rr',
  excludeCIDRs: [],
  strictARP: false,
  timeouts: { tcp: 0, tcpFin: 0, udp: 0 },
} as const;
const profileOf = (rest: Partial<Profile> = {}): Profile => profileWith({ mode: 'ipvs', ipvs, ...rest });

/** Rules of one chain without their comments. */
function chain(
  profile: Profile,
  family: 'ipv4' | 'ipv6',
  name: string,
  undetected: readonly (Guard | undefined)[] = [],
): string[] {
  const files = [firstIpvsRules(profile, family, undetected), lastIpvsRules(profile, family)];
  const rules = files.flatMap((file) => file.sections.flatMap((section) => section.rules));
  return rules
    .filter(({ text }) => text.startsWith(`-A ${name} `))
    .map(
      ({ guard, text }) =>
        (guard ? '(guarded) ' : '') + text.replace(/ -m comment --comment "[^"]*"/, '').slice(name.length + 4),
    );
}

test('a packet to a Service matches the rules of kube-proxy in its order', () => {
  expect(chain(profileOf(), 'ipv6', 'KUBE-SERVICES')).toEqual([
    '-s ::1/128 -j RETURN',
    '-m set --match-set KUBE-6-LOAD-BALANCER dst,dst -j KUBE-LOAD-BALANCER',
    '-m set --match-set KUBE-6-CLUSTER-IP dst,dst ! -s ${profile.clusterCIDR} -j KUBE-MARK-MASQ',
    '-m set --match-set KUBE-6-EXTERNAL-IP dst,dst -j KUBE-MARK-MASQ',
    '-m set --match-set KUBE-6-EXTERNAL-IP dst,dst -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT',
    '-m set --match-set KUBE-6-EXTERNAL-IP dst,dst -m addrtype --dst-type LOCAL -j ACCEPT',
    '-m set --match-set KUBE-6-EXTERNAL-IP-LOCAL dst,dst -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT',
    '-m set --match-set KUBE-6-EXTERNAL-IP-LOCAL dst,dst -m addrtype --dst-type LOCAL -j ACCEPT',
    '-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT',
    '-m set --match-set KUBE-6-CLUSTER-IP dst,dst -j ACCEPT',
    '-m set --match-set KUBE-6-LOAD-BALANCER dst,dst -j ACCEPT',
  ]);
});

const named: Guard = { kind: 'node', negated: false, values: ['node-1'] };

test.each([
  [
    'everything, where all is masqueraded',
    { iptables: { masqueradeBit: 14, masqueradeAll: true, localhostNodePorts: true, randomFully: true } },
    [],
    ['dst,dst'],
  ],
  ['other sources than pods, with a detector', {}, [], ['dst,dst ! -s ${profile.clusterCIDR}']],
  ['who comes from a ClusterIP, without a detector', { clusterCIDR: {} }, [], ['src,dst']],
  [
    'the same on nodes without a pod CIDR',
    { detectLocalMode: 'NodeCIDR' },
    [named],
    ['dst,dst ! -s ${node.podCIDR}', '(guarded) src,dst'],
  ],
] as const)('masquerades traffic to a ClusterIP: %s', (_title, rest, undetected, expected) => {
  const rules = chain(profileOf(rest), 'ipv4', 'KUBE-SERVICES', undetected).filter((rule) =>
    rule.endsWith('KUBE-MARK-MASQ'),
  );
  const asked = rules.filter((rule) => rule.includes('KUBE-CLUSTER-IP'));
  expect(
    asked.map((rule) => rule.replace('-m set --match-set KUBE-CLUSTER-IP ', '').replace(' -j KUBE-MARK-MASQ', '')),
  ).toEqual(expected);
});

test.each([
  ['KUBE-LOAD-BALANCER', ['KUBE-LOAD-BALANCER-LOCAL dst,dst -j RETURN', '-j KUBE-MARK-MASQ']],
  [
    'KUBE-SOURCE-RANGES-FIREWALL',
    [
      'KUBE-LOAD-BALANCER-SOURCE-CIDR dst,dst,src -j RETURN',
      'KUBE-LOAD-BALANCER-SOURCE-IP dst,dst,src -j RETURN',
      '-j DROP',
    ],
  ],
  [
    'KUBE-POSTROUTING',
    [
      'KUBE-LOOP-BACK dst,dst,src -j MASQUERADE',
      '-m mark ! --mark 0x00004000/0x00004000 -j RETURN',
      '-j MARK --xor-mark 0x00004000',
      '-j MASQUERADE --random-fully',
    ],
  ],
])('chain %s has its rules in order', (name, expected) => {
  expect(chain(profileOf(), 'ipv4', name).map((rule) => rule.replace('-m set --match-set ', ''))).toEqual(expected);
});

test('every rule is in the grammar, and matches only sets that are created', () => {
  const created = createText(['ipv4', 'ipv6'], new SetSizes());
  for (const family of ['ipv4', 'ipv6'] as const) {
    const files = [firstIpvsRules(profileOf(), family, []), lastIpvsRules(profileOf(), family)];
    for (const { text } of files.flatMap(({ sections }) => sections.flatMap(({ rules }) => rules))) {
      const filled = text.replace('${profile.clusterCIDR}', family === 'ipv4' ? '10.244.0.0/16' : 'fd00::/56');
      const rule = readRule(filled);
      expect(isRuleError(rule) ? `${rule.error}: ${filled}` : '').toBe('');
      const sets = [...text.matchAll(/ --match-set (\S+)/g)].map(([, set]) => `create ${set} `);
      expect(sets.filter((line) => !created.includes(line))).toEqual([]);
    }
  }
});

test('every set is created in each family of the profile, empty or not, sorted', () => {
  const names = createText(['ipv4', 'ipv6'], new SetSizes())
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
    .slice(0, -1);
  expect(names).toEqual(names.toSorted());
  expect(names).toHaveLength(2 * setKeys.length);
  expect(names).toContain('KUBE-6-LOAD-BALANCER-SOURCE-CID');
  expect(createText(['ipv4'], new SetSizes())).not.toContain('KUBE-6-');
});

test.each([
  ['fits', 65_536, {}, 65_536],
  ['does not fit', 65_537, {}, 131_072],
  ['is spread over nodes', 65_537, { spread: true }, 65_536],
  ['has a line for each address of a machine', 1_100, { host: true }, 131_072],
])(
  'a set whose content %s has the size for it',
  (_title, count, { spread, host }: { spread?: boolean; host?: boolean }, size) => {
    const entries = Array.from({ length: count }, (_, index) => ({
      ...(spread && { guard: { kind: 'node', negated: false, values: [`node-${index % 2}`] } as const }),
      text: `add ${setName('KUBE-CLUSTER-IP', 'ipv4')} ${host ? '${host.nodePortAddresses}' : `10.0.${index >> 8}.${index & 255}`},tcp:80`,
    }));
    const sizes = new SetSizes();
    sizes.add(entries);
    expect(createText(['ipv4'], sizes)).toContain(
      `create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem ${size}\n`,
    );
  },
);

test.each([
  ['none', { tcp: 0, tcpFin: 0, udp: 0 }, ''],
  ['one', { tcp: 0, tcpFin: 0, udp: 300 }, '--set 0 0 300\n'],
])('time-outs: %s', (_title, timeouts, text) => {
  expect(timeoutsText({ ...ipvs, timeouts })).toBe(text);
});
