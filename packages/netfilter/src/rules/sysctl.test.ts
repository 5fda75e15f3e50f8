import { expect, test } from 'vitest';
import { checkSysctl, printSysctl, procPath, readSysctlLine, sysctlKeys } from './sysctl.ts';

test.each([
  ['a limit', 'net.netfilter.nf_conntrack_max = 262144'],
  ['a time-out', 'net.netfilter.nf_conntrack_tcp_timeout_established = 86400'],
  ['a time-out of half-open connections', 'net.netfilter.nf_conntrack_tcp_timeout_syn_recv = 20'],
  ['a time-out of SCTP', 'net.netfilter.nf_conntrack_sctp_timeout_established = 600'],
  ['a flag', 'net.ipv4.conf.all.route_localnet = 1'],
  ['the largest limit', 'net.netfilter.nf_conntrack_max = 2147483647'],
])('%s is read and printed back', (_title, line) => {
  const setting = readSysctlLine(line);
  expect(typeof setting === 'string' ? setting : printSysctl(setting)).toBe(line);
});

test.each([
  ['a key that is not in the list', 'kernel.core_pattern = 1', 'not in the allow-list'],
  ['a way out of the tree', 'net/ipv4/../../kernel/ostype = 1', 'not in the allow-list'],
  ['slashes for dots', 'net/ipv4/ip_forward = 1', 'not in the allow-list'],
  ['a name every object has', 'constructor = 1', 'not in the allow-list'],
  ['one interface', 'net.ipv4.conf.eth0.route_localnet = 1', 'not in the allow-list'],
  ['a value over the range', 'net.ipv4.conf.all.route_localnet = 2', 'from 0 to 1'],
  ['forwarding turned off', 'net.ipv4.ip_forward = 0', 'must be 1'],
  ['a value under the range', 'net.netfilter.nf_conntrack_max = 0', 'from 1024 to'],
  ['a value beyond 31 bits', 'net.netfilter.nf_conntrack_max = 2147483648', 'to 2147483647'],
  ['a negative value', 'net.netfilter.nf_conntrack_udp_timeout = -1', 'a whole number'],
  ['a time-out of no seconds', 'net.netfilter.nf_conntrack_tcp_timeout_fin_wait = 0', 'from 1 to 2592000'],
  ['a time-out beyond thirty days', 'net.netfilter.nf_conntrack_tcp_timeout_last_ack = 2592001', 'from 1 to 2592000'],
  ['a limit on retransmissions', 'net.netfilter.nf_conntrack_tcp_max_retrans = 3', 'not in the allow-list'],
  ['a leading zero', 'net.ipv4.conf.all.route_localnet = 01', 'a whole number'],
  ['a hexadecimal value', 'net.ipv4.conf.all.route_localnet = 0x1', 'a whole number'],
  ['a fraction', 'net.netfilter.nf_conntrack_udp_timeout = 1.5', 'a whole number'],
  ['no spaces', 'net.ipv4.ip_forward=1', 'of the form'],
  ['no value', 'net.ipv4.ip_forward = ', 'of the form'],
  ['two values', 'net.ipv4.ip_forward = 1 1', 'of the form'],
  ['the dash that makes sysctl ignore errors', '-net.ipv4.ip_forward = 1', 'not in the allow-list'],
])('refuses %s', (_title, line, reason) => {
  expect(readSysctlLine(line)).toContain(reason);
});

test('each key has the path of its name', () => {
  expect(sysctlKeys.map(procPath)).toEqual(sysctlKeys.map((key) => `/proc/sys/${key.replaceAll('.', '/')}`));
});

test('a value in a config is checked like one in a file', () => {
  expect(checkSysctl('net.ipv4.ip_forward', '1')).toEqual({ key: 'net.ipv4.ip_forward', value: 1 });
  expect(checkSysctl('net.ipv4.ip_forward', 'yes')).toContain('must be 1');
});
