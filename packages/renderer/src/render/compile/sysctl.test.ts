import { expect, test } from 'vitest';
import type { Profile } from '../model/config.ts';
import { profileWith } from './sample.fixture.ts';
import { sysctlText } from './sysctl.ts';

const nothing: Profile['conntrack'] = {
  maxPerCore: 0,
  min: 131_072,
  tcpEstablishedTimeout: 0,
  tcpCloseWaitTimeout: 0,
  udpTimeout: 0,
  udpStreamTimeout: 0,
  tcpBeLiberal: false,
};
/** No node ports on localhost, so that only what a row names is set. */
const quiet = profileWith({ conntrack: nothing, nodePortAddresses: ['primary'] });

test("kube-proxy's defaults", () => {
  expect(sysctlText(profileWith())).toBe(`net.ipv4.conf.all.route_localnet = 1
net.netfilter.nf_conntrack_max = \${node.conntrackMax}
net.netfilter.nf_conntrack_tcp_timeout_close_wait = 3600
net.netfilter.nf_conntrack_tcp_timeout_established = 86400
`);
});

test.each<[string, Partial<Profile['conntrack']>, string]>([
  ['nothing', {}, ''],
  ['min alone is no limit', { min: 1 }, ''],
  ['maxPerCore', { maxPerCore: 1 }, 'net.netfilter.nf_conntrack_max = ${node.conntrackMax}\n'],
  ['tcpEstablishedTimeout', { tcpEstablishedTimeout: 7 }, 'net.netfilter.nf_conntrack_tcp_timeout_established = 7\n'],
  ['tcpCloseWaitTimeout', { tcpCloseWaitTimeout: 7 }, 'net.netfilter.nf_conntrack_tcp_timeout_close_wait = 7\n'],
  ['udpTimeout', { udpTimeout: 7 }, 'net.netfilter.nf_conntrack_udp_timeout = 7\n'],
  ['udpStreamTimeout', { udpStreamTimeout: 7 }, 'net.netfilter.nf_conntrack_udp_timeout_stream = 7\n'],
  ['tcpBeLiberal', { tcpBeLiberal: true }, 'net.netfilter.nf_conntrack_tcp_be_liberal = 1\n'],
])('conntrack: %s', (_title, conntrack, expected) => {
  expect(sysctlText({ ...quiet, conntrack: { ...nothing, ...conntrack } })).toBe(expected);
});

test('sysctls of the profile are sorted by key and take precedence', () => {
  const conntrack = { ...nothing, udpTimeout: 7, tcpCloseWaitTimeout: 60 };
  const sysctls = { 'net.netfilter.nf_conntrack_udp_timeout': '30', 'net.ipv4.ip_forward': '1' };
  expect(sysctlText({ ...quiet, conntrack, sysctls })).toBe(`net.ipv4.ip_forward = 1
net.netfilter.nf_conntrack_tcp_timeout_close_wait = 60
net.netfilter.nf_conntrack_udp_timeout = 30
`);
});

test('mode nftables never routes loopback addresses, whatever has node ports', () => {
  const nftables = { masqueradeAll: false };
  for (const nodePortAddresses of [[], ['all'], ['localhost']])
    expect(sysctlText(profileWith({ mode: 'nftables', nftables, nodePortAddresses, conntrack: nothing }))).toBe('');
});

test('mode ipvs sets the sysctls of IPVS, conn_reuse_mode only on kernels with its bug', () => {
  const ipvs = { scheduler: 'rr', excludeCIDRs: [], strictARP: true, timeouts: { tcp: 0, tcpFin: 0, udp: 0 } } as const;
  const conntrack = { ...profileWith().conntrack, maxPerCore: 0, tcpEstablishedTimeout: 0, tcpCloseWaitTimeout: 0 };
  const text = sysctlText(profileWith({ mode: 'ipvs', ipvs, conntrack, nodePortAddresses: [] }));
  expect(text.split('\n')).toEqual([
    'net.ipv4.conf.all.arp_announce = 2',
    'net.ipv4.conf.all.arp_ignore = 1',
    'net.ipv4.ip_forward = 1',
    '@kernel=4.1..5.8 net.ipv4.vs.conn_reuse_mode = 0',
    'net.ipv4.vs.conntrack = 1',
    'net.ipv4.vs.expire_nodest_conn = 1',
    'net.ipv4.vs.expire_quiescent_template = 1',
    '',
  ]);
  const chosen = sysctlText(profileWith({ mode: 'ipvs', ipvs, sysctls: { 'net.ipv4.vs.conn_reuse_mode': '1' } }));
  expect(chosen).toContain('\nnet.ipv4.vs.conn_reuse_mode = 1\n');
});
