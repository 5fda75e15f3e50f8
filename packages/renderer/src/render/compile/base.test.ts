import { invalidDrop } from '@sluice/netfilter';
import { liberalKey, printRuleFile } from '@sluice/bundle';
import { expect, test } from 'vitest';
import type { Profile } from '../model/config.ts';
import { firstRules, lastRules } from './base.ts';
import { profileWith } from './sample.fixture.ts';
import { sysctlText } from './sysctl.ts';

const usual = profileWith();
const withIptables = (rest: Partial<Profile['iptables']>): Profile =>
  profileWith({ iptables: { ...usual.iptables, ...rest } });

test('before the Services, IPv4', () => {
  expect(printRuleFile(firstRules(usual, 'ipv4'))).toBe(`# before the Services
*filter
:KUBE-SERVICES - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-FIREWALL - [0:0]
-A KUBE-FIREWALL -m comment --comment "block incoming localnet connections" -d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
-A KUBE-POSTROUTING -m mark ! --mark 0x00004000/0x00004000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x00004000
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
-A KUBE-MARK-MASQ -j MARK --or-mark 0x00004000
COMMIT
`);
});

test('after the Services, IPv4', () => {
  expect(printRuleFile(lastRules(usual, 'ipv4'))).toBe(`# after the Services
*filter
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x00004000/0x00004000 -j ACCEPT
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
*nat
-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
COMMIT
`);
});

test('leaves --random-fully out if the profile disables it', () => {
  expect(printRuleFile(firstRules(withIptables({ randomFully: false }), 'ipv4'))).toContain('-j MASQUERADE\n');
});

test.each([
  [0, '0x00000001'],
  [14, '0x00004000'],
  [31, '0x80000000'],
])('masquerade bit %i is mark %s, before and after the Services', (masqueradeBit, mark) => {
  const profile = withIptables({ masqueradeBit });
  expect(printRuleFile(firstRules(profile, 'ipv6'))).toContain(`! --mark ${mark}/${mark} -j RETURN\n`);
  expect(printRuleFile(firstRules(profile, 'ipv6'))).toContain(`--or-mark ${mark}\n`);
  expect(printRuleFile(lastRules(profile, 'ipv6'))).toContain(`--mark ${mark}/${mark} -j ACCEPT\n`);
});

test.each([
  [false, {}, true],
  [true, {}, false],
  [false, { [liberalKey]: '1' }, false],
  [true, { [liberalKey]: '0' }, true],
])(
  'drops INVALID packets unless sysctl.conf is liberal (tcpBeLiberal %s, sysctls %j)',
  (tcpBeLiberal, sysctls, drops) => {
    const profile = profileWith({ conntrack: { ...usual.conntrack, tcpBeLiberal }, sysctls });
    expect(printRuleFile(lastRules(profile, 'ipv4')).includes(invalidDrop)).toBe(drops);
    expect(sysctlText(profile).includes(`${liberalKey} = 1`)).toBe(!drops);
  },
);

test('a family whose only node-port range cannot work has no nat section after the Services', () => {
  const profile = profileWith({ nodePortAddresses: ['::1/128'] });
  expect(lastRules(profile, 'ipv6').sections.map((section) => section.table)).toEqual(['filter']);
});

test.each([
  ['IPv6', {}, 'ipv6'],
  ['no localhost node ports', { localhostNodePorts: false }, 'ipv4'],
] as const)('declares KUBE-FIREWALL without rules: %s', (_title, options, family) => {
  const text = printRuleFile(firstRules(withIptables(options), family));
  expect(text).toContain(':KUBE-FIREWALL - [0:0]\n');
  expect(text).not.toContain('-A KUBE-FIREWALL');
});

test.each([
  ['every address', [], true],
  ['loopback among others', ['127.0.0.0/8', '192.0.2.0/24'], true],
  ['networks without loopback', ['192.0.2.0/24'], false],
  ["the Node's own address", ['primary'], false],
] as const)(
  'node ports on %s: what comes for loopback from elsewhere is dropped: %s',
  (_title, addresses, isDropped) => {
    const text = printRuleFile(firstRules(profileWith({ nodePortAddresses: addresses }), 'ipv4'));
    expect(text.includes('-A KUBE-FIREWALL')).toBe(isDropped);
  },
);
