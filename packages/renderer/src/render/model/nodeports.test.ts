import { expect, test } from 'vitest';
import type { Profile } from './config.ts';
import {
  chosenCidrs,
  hostCidrs,
  isPrimaryAlone,
  localhostOfTable,
  needsRouteLocalnet,
  nodePortTail,
} from './nodeports.ts';
import { profileWith } from '../compile/sample.fixture.ts';
import { sysctlText } from '../compile/sysctl.ts';

function profile(nodePortAddresses: readonly string[], localhostNodePorts = true): Profile {
  return profileWith({ nodePortAddresses, iptables: { ...profileWith().iptables, localhostNodePorts } });
}
const localhost = true;
const noLocalhost = false;

/** What the last rule of KUBE-SERVICES matches; `-`: there is none. */
function tail(of: Profile, family: 'ipv4' | 'ipv6'): string {
  const lines = nodePortTail(of, family);
  const form =
    /^-A KUBE-SERVICES -m comment --comment "[^"]+; NOTE: this must be the last rule in this chain" (.+) -j KUBE-NODEPORTS$/;
  return lines.map((line) => form.exec(line)?.[1] ?? line).join('\n') || '-';
}

test.each<[string, string[], boolean, string, string]>([
  ['every address', [], localhost, '-m addrtype --dst-type LOCAL', '-m addrtype --dst-type LOCAL ! -d ::1/128'],
  [
    'every address but loopback',
    [],
    noLocalhost,
    '-m addrtype --dst-type LOCAL ! -d 127.0.0.0/8',
    '-m addrtype --dst-type LOCAL ! -d ::1/128',
  ],
  [
    'a CIDR that holds all',
    ['0.0.0.0/0', '::/0'],
    noLocalhost,
    '-m addrtype --dst-type LOCAL ! -d 127.0.0.0/8',
    '-m addrtype --dst-type LOCAL ! -d ::1/128',
  ],
  [
    'a CIDR that holds all among others',
    ['192.0.2.0/24', '0.0.0.0/0', '2001:db8::/64'],
    localhost,
    '-m addrtype --dst-type LOCAL',
    '-d ${host.nodePortAddresses}',
  ],
  [
    'CIDRs of one family leave the other open',
    ['192.0.2.0/24'],
    localhost,
    '-d ${host.nodePortAddresses}',
    '-m addrtype --dst-type LOCAL ! -d ::1/128',
  ],
  [
    'CIDRs of both families',
    ['192.0.2.0/24', '2001:db8::/64'],
    localhost,
    '-d ${host.nodePortAddresses}',
    '-d ${host.nodePortAddresses}',
  ],
  ['the Node’s own address', ['primary'], localhost, '-d ${node.address}', '-d ${node.address}'],
  [
    'loopback only, with localhost node ports',
    ['127.0.0.0/8', '::1/128'],
    localhost,
    '-d ${host.nodePortAddresses}',
    '-',
  ],
  ['loopback, by its word', ['localhost'], localhost, '-d ${host.nodePortAddresses}', '-'],
  ['loopback, by its word, without localhost node ports', ['localhost'], noLocalhost, '-', '-'],
  [
    'every address, by its word',
    ['all'],
    localhost,
    '-m addrtype --dst-type LOCAL',
    '-m addrtype --dst-type LOCAL ! -d ::1/128',
  ],
  [
    'every address, whatever stands beside the word',
    ['primary', 'all', 'localhost', '192.0.2.0/24'],
    noLocalhost,
    '-m addrtype --dst-type LOCAL ! -d 127.0.0.0/8',
    '-m addrtype --dst-type LOCAL ! -d ::1/128',
  ],
  [
    'the Node’s own address and loopback',
    ['primary', 'localhost'],
    localhost,
    '-d ${host.nodePortAddresses}',
    '-d ${host.nodePortAddresses}',
  ],
  [
    'the Node’s own address and loopback, without localhost node ports',
    ['primary', 'localhost'],
    noLocalhost,
    '-d ${node.address}',
    '-d ${node.address}',
  ],
  [
    'the Node’s own address and CIDRs of one family',
    ['192.0.2.0/24', 'primary'],
    localhost,
    '-d ${host.nodePortAddresses}',
    '-d ${host.nodePortAddresses}',
  ],
  [
    'the Node’s own address and a CIDR that holds a family',
    ['0.0.0.0/0', 'primary'],
    localhost,
    '-m addrtype --dst-type LOCAL',
    '-d ${node.address}',
  ],
  ['loopback only, without localhost node ports', ['127.0.0.1/32', '::1/128'], noLocalhost, '-', '-'],
])('node ports on %s', (_title, addresses, localhostNodePorts, ipv4, ipv6) => {
  const of = profile(addresses, localhostNodePorts);
  expect([tail(of, 'ipv4'), tail(of, 'ipv6')]).toEqual([ipv4, ipv6]);
});

test.each<[string, string[], boolean, string[]]>([
  ['none when every address is open', [], localhost, []],
  ['none with `primary`', ['primary'], localhost, []],
  ['none of a family that is open anyway', ['0.0.0.0/0', '192.0.2.0/24'], localhost, []],
  ['those of the family', ['192.0.2.0/24', '2001:db8::/64'], localhost, ['192.0.2.0/24']],
  [
    'loopback, too, with localhost node ports',
    ['127.0.0.0/8', '192.0.2.0/24'],
    localhost,
    ['127.0.0.0/8', '192.0.2.0/24'],
  ],
  ['no loopback without them', ['127.0.0.0/8', '192.0.2.0/24'], noLocalhost, ['192.0.2.0/24']],
  ['no part of loopback without them', ['127.0.1.0/24'], noLocalhost, []],
  ['what lies around loopback without them', ['124.0.0.0/6'], noLocalhost, ['124.0.0.0/7', '126.0.0.0/8']],
  ['loopback in the midst with them', ['124.0.0.0/6'], localhost, ['124.0.0.0/6']],
])('CIDRs of host.nodePortAddresses: %s', (_title, addresses, localhostNodePorts, expected) => {
  expect(hostCidrs(profile(addresses, localhostNodePorts), 'ipv4')).toEqual(expected);
});

/** A profile of mode ipvs, where loopback addresses never answer. */
const ipvs = (nodePortAddresses: readonly string[]): Profile => ({ ...profile(nodePortAddresses), mode: 'ipvs' });

/** The same in mode nftables, whose default is the own address alone. */
const nftables = (nodePortAddresses: readonly string[]): Profile => ({
  ...profile(nodePortAddresses),
  mode: 'nftables',
});

test.each<[string, Profile, string[]]>([
  ['every address', profile([]), []],
  ['every address, by its word', profile(['all', '192.0.2.0/24']), []],
  ['`primary` alone', profile(['primary']), []],
  ['loopback, which answers in IPv4 alone', profile(['localhost']), ['127.0.0.0/8', '::1/128']],
  ['loopback where it cannot answer: nothing is open', profile(['localhost'], noLocalhost), ['127.0.0.0/8', '::1/128']],
  [
    'loopback of IPv4 where it cannot answer: every address of IPv6 alone',
    profile(['127.0.0.0/8'], noLocalhost),
    ['127.0.0.0/8', '::/0'],
  ],
  ['`primary` and loopback', profile(['primary', 'localhost']), ['127.0.0.0/8', 'primary']],
  ['`primary` and loopback where it cannot answer', profile(['primary', 'localhost'], noLocalhost), []],
  [
    '`primary` and networks',
    profile(['primary', '2001:db8::/64', '192.0.2.0/24']),
    ['192.0.2.0/24', '2001:db8::/64', 'primary'],
  ],
  ['`primary` and a CIDR that holds a family', profile(['primary', '::/0']), []],
  ['mode ipvs, `primary` alone', ipvs(['primary']), []],
  ['mode ipvs, loopback: nothing is open', ipvs(['localhost']), ['127.0.0.0/8', '::1/128']],
  ['mode ipvs, `primary` and loopback', ipvs(['primary', 'localhost']), []],
  ['mode ipvs, `primary` and networks', ipvs(['primary', '192.0.2.0/24']), ['192.0.2.0/24', 'primary']],
  ['mode ipvs, `primary` and a CIDR that holds a family', ipvs(['primary', '::/0']), ['::/0', 'primary']],
  ['mode nftables, the default', nftables([]), []],
  ['mode nftables, loopback: nothing is open', nftables(['localhost']), ['127.0.0.0/8', '::1/128']],
  ['mode nftables, a network of one family', nftables(['192.0.2.0/24']), ['192.0.2.0/24', '::/0']],
  ['mode nftables, `primary` and networks', nftables(['primary', '192.0.2.0/24']), ['192.0.2.0/24', 'primary']],
  ['mode nftables, every address', nftables(['all']), ['0.0.0.0/0', '::/0']],
  ['mode ipvs, every address', ipvs(['all', 'primary']), []],
])('nodePortAddresses of profile.yaml, with node ports on %s', (_title, of, expected) => {
  expect(chosenCidrs(of)).toEqual(expected);
  // Where rules ask for the variable the list says what it is, and `primary` stands beside something.
  const isBesides = expected.includes('primary');
  expect(isBesides && (expected.length === 1 || isPrimaryAlone(of))).toBe(false);
});

test.each([
  [['::/126'], ['::2/127', '::/128']],
  [['2001:db8::/64'], ['2001:db8::/64']],
])('IPv6 has no node ports on loopback: %j becomes %j', (addresses, expected) => {
  expect(hostCidrs(profile(addresses), 'ipv6')).toEqual(expected);
});

/** In mode nftables of kube-proxy 1.38. */
const inTable = (nodePortAddresses: readonly string[], more: Partial<Profile> = {}): Profile => ({
  ...profile(nodePortAddresses),
  mode: 'nftables',
  nftables: { masqueradeAll: false },
  kubeProxyVersion: '1.38',
  ...more,
});
const gate = (isOn: boolean): Pick<Profile, 'featureGates'> => ({
  featureGates: { AllowServiceExternalIPs: true, KubeProxyNFTablesLocalhostNodePorts: isOn },
});

/** `ContainsExplicitLoopback` of kube-proxy 1.38, in `pkg/proxy/util/nodeport_addresses.go`. */
test.each<[string, Profile, string | undefined]>([
  ['by default', inTable([]), 'refused'],
  ['every address', inTable(['0.0.0.0/0']), 'refused'],
  ['every address, by its word', inTable(['all']), 'refused'],
  ['every address and loopback', inTable(['all', 'localhost']), 'served'],
  ['loopback, by its word', inTable(['localhost']), 'served'],
  ['the own address and loopback', inTable(['primary', 'localhost']), 'served'],
  ['one loopback address', inTable(['127.0.0.1/32']), 'served'],
  ['half of all addresses', inTable(['0.0.0.0/1']), 'served'],
  ['loopback addresses apart from 127.0.0.1', inTable(['127.0.1.0/24']), 'refused'],
  ['loopback of IPv6', inTable(['::1/128']), 'refused'],
  ['loopback without IPv4', inTable(['localhost'], { families: ['ipv6'] }), 'refused'],
  ['loopback with kube-proxy 1.37', inTable(['localhost'], { kubeProxyVersion: '1.37' }), undefined],
  [
    'loopback with kube-proxy 1.37 and the gate',
    inTable(['localhost'], { kubeProxyVersion: '1.37', ...gate(true) }),
    'served',
  ],
  ['loopback without the gate', inTable(['localhost'], gate(false)), undefined],
  ['loopback in mode ipvs', { ...profile(['localhost']), mode: 'ipvs', kubeProxyVersion: '1.38' }, undefined],
])('mode nftables, node ports on %s', (_title, of, expected) => {
  expect(localhostOfTable(of)).toBe(expected);
  expect(needsRouteLocalnet(of)).toBe(expected === 'served');
});

test.each<[string, Profile, boolean]>([
  ['node ports on every address', profile([]), true],
  ['node ports on a CIDR that holds all', profile(['0.0.0.0/0']), true],
  ['node ports on loopback addresses', profile(['127.0.0.0/8']), true],
  ['node ports on one loopback address', profile(['127.0.0.1/32']), true],
  ['node ports on loopback addresses apart from 127.0.0.1', profile(['127.0.1.0/24']), true],
  ['node ports on loopback addresses among others', profile(['127.0.0.0/8', '192.0.2.0/24']), true],
  ['node ports on half of all addresses', profile(['0.0.0.0/1']), true],
  ['node ports on IPv6 addresses, which leaves IPv4 open', profile(['2001:db8::/64']), true],
  ['node ports on other addresses', profile(['192.0.2.0/24']), false],
  ['node ports on the Node’s own address', profile(['primary']), false],
  ['node ports on loopback, by its word', profile(['localhost']), true],
  ['node ports on the Node’s own address and loopback', profile(['primary', 'localhost']), true],
  ['node ports on the Node’s own address and another network', profile(['primary', '192.0.2.0/24']), false],
  ['node ports on every address, by its word', profile(['all']), true],
  ['no localhost node ports', profile([], noLocalhost), false],
  ['no IPv4', { ...profile([]), families: ['ipv6'] }, false],
])('route_localnet with %s: %s', (_title, of, expected) => {
  expect(needsRouteLocalnet(of)).toBe(expected);
  expect(sysctlText(of).includes('net.ipv4.conf.all.route_localnet = 1\n')).toBe(expected);
});
