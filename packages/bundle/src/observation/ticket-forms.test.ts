import { expect, test } from 'vitest';
import { connectionsIn } from './connections.ts';
import { observationOf, textsOf } from './saved-files.ts';

const rules = '*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j ACCEPT\nCOMMIT\n';

const observed = (files: Readonly<Record<string, string>>) =>
  observationOf({ node: 'node-1', tools: {} }, textsOf(new Map(Object.entries(files))));

const whyOf = (part: string, files: Readonly<Record<string, string>>): string | undefined =>
  observed(files).missing.find((one) => one.part === part)?.why;

test.each([
  ['indented by a tab', rules.replaceAll(/^(?=.)/gm, '\t')],
  ['indented by blanks', rules.replaceAll(/^(?=.)/gm, '    ')],
  ['a prompt of root', `root@node-1:~# iptables-save\n${rules}`],
  ['a prompt with sudo', `$ sudo iptables-save -c\n${rules}`],
  ['a prompt in brackets', `[root@node-1 ~]# /usr/sbin/iptables-nft-save\n${rules}`],
  ['an indented prompt', `root@n:~# iptables-save\n${rules}`.replaceAll(/^(?=.)/gm, '  ')],
])('rules are read past %s', (_title, text) => {
  expect(observed({ 'iptables-save.txt': text }).rules[0]?.lines).toEqual(
    rules
      .trimEnd()
      .split('\n')
      .map((line) => line.replace(' [0:0]', '')),
  );
});

test.each([
  ['iptables -S', '-P INPUT ACCEPT\n-N KUBE-SERVICES\n-A INPUT -j DROP\n'],
  ['iptables -S', '-N KUBE-SERVICES\n-A KUBE-SERVICES -j DROP\n'],
  ['iptables -L', 'Chain INPUT (policy ACCEPT)\ntarget     prot opt source               destination\n'],
  ['iptables -L', 'Chain INPUT (policy ACCEPT 0 packets, 0 bytes)\n pkts bytes target\n'],
  ['iptables -L', 'Chain KUBE-SERVICES (2 references)\ntarget     prot opt source               destination\n'],
])('the output of `%s` is named as such', (tool, text) => {
  expect(whyOf('rules-nft-ipv4', { 'iptables-save.txt': text })).toContain(`this is the output of \`${tool}\``);
});

test('what the tool says of a table that it leaves out is repeated', () => {
  const text = "# Table `filter' is incompatible, use 'nft' tool.\n*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n";
  expect(whyOf('rules-nft-ipv4', { 'iptables-save.txt': text })).toContain("Table `filter' is incompatible");
});

test.each([
  ['ip -br addr', 'lo UNKNOWN 127.0.0.1/8 ::1/128\neth0@if7   UP   192.0.2.11/24 fe80::1/64 \ncni0 DOWN\n'],
  [
    'ip -o addr',
    '1: lo    inet 127.0.0.1/8 scope host lo\\ valid_lft forever\n1: lo    inet6 ::1/128 scope host\n2: eth0    inet 192.0.2.11/24 scope global eth0\n2: eth0    inet6 fe80::1/64 scope link\n',
  ],
  [
    'ip addr',
    '1: lo: <UP>\n    inet 127.0.0.1/8 scope host lo\n    inet6 ::1/128 scope host\n2: eth0@if7: <UP>\n    inet 192.0.2.11/24 scope global eth0\n    inet6 fe80::1/64 scope link\n',
  ],
])('addresses are read as `%s` prints them', (_tool, text) => {
  expect(observed({ 'ip-addr.txt': text }).interfaces).toEqual([
    'eth0 192.0.2.11/24',
    'eth0 fe80::1/64',
    'lo 127.0.0.1/8',
    'lo ::1/128',
  ]);
});

test.each([
  'eth0: flags=4163<UP>  mtu 1500\n        inet 192.0.2.11  netmask 255.255.255.0\n',
  'bash: ip: command not found\n',
])('a text that is none of `ip addr` is missing, not a node without addresses: %s', (text) => {
  expect(whyOf('addresses', { 'ip-addr.txt': text })).toBeDefined();
});

const entry =
  'tcp      6 86382 ESTABLISHED src=10.244.1.9 dst=10.96.0.10 sport=40000 dport=80 src=10.244.1.5 dst=10.244.1.9 sport=8080 dport=40000 [ASSURED] mark=0 use=1';

test.each([
  ['conntrack -L', entry],
  ['conntrack -L -o extended', `ipv4     2 ${entry}`],
  ['/proc/net/nf_conntrack', `ipv4     2 ${entry.replace(' use=1', ' zone=0 use=2')}`],
  ['conntrack -L -o id', `${entry} id=3456789`],
])('connections are read as `%s` prints them', (_tool, text) => {
  expect(connectionsIn(`${text}\n`)).toMatchObject({
    pairs: [{ frontend: '10.96.0.10:80', endpoint: '10.244.1.5:8080', count: 1 }],
  });
});

test.each([
  ['none of its lines', 'conntrack: command not found\n'],
  ['nothing', ''],
  ['events', `    [NEW] ${entry}\n`],
  ['commands that restore entries', '-A -s 10.244.1.9 -d 10.96.0.10 -p tcp\n'],
  ['a part of a line', entry.slice(0, 60)],
  ['fewer entries than it counts', `${entry}\nconntrack v1.4.7 (conntrack-tools): 2 flow entries have been shown.\n`],
])('of a text that has %s nothing is known of connections', (_title, text) => {
  expect(connectionsIn(text)).toEqual({ why: expect.any(String) });
});
