import { expect, test } from 'vitest';
import { bundleOf } from './example.fixture.ts';
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

test('what all Services share names none', () => {
  expect(explain(balancer, 'KUBE-POSTROUTING')).not.toHaveProperty('service');
  expect(explain(virtual, 'KUBE-CLUSTER-IP')).not.toHaveProperty('service');
});

test('what nothing has is not there, and what is no rule is a problem', () => {
  expect(explain(balancer, 'KUBE-SVC-AAAAAAAAAAAAAAAA')).toBeUndefined();
  expect(explain(balancer, '-A KUBE-SERVICES -j LOG')).toMatchObject({ code: 'RULE_REFUSED' });
});

test.each([
  '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
  '-A OUTPUT -j SLUICE-SERVICES',
])('a rule of a built-in chain is what it leads to: %s', (asked) => {
  const found = explain(balancer, asked);
  expect(found).toMatchObject({ places: [{ text: ':KUBE-SERVICES - [0:0]' }, {}, {}, {}] });
  expect(found).toHaveProperty(
    'meaning',
    expect.stringMatching(/^leads packets of \w+ to KUBE-SERVICES, which is where/),
  );
});

test('a rule of a built-in chain that leads to none of ours is nobody known', () => {
  expect(explain(balancer, '-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT')).toBeUndefined();
});
