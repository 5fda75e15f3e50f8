import { readCluster, readNode, readProfile } from '@sluice/bundle';
import { expect, test } from 'vitest';
import type { Profile } from '../model/config.ts';
import type { Node } from '../model/model.ts';
import type { KubeProxyVersion } from '../model/version.ts';
import { clusterText, nodeText, profileText } from './documents.ts';
import { configWith, node, profileWith } from './sample.fixture.ts';

test('cluster.yaml', () => {
  const config = configWith({ serviceCIDRs: { ipv6: ['fd00:10:96::/112'], ipv4: ['10.96.0.0/12'] } });
  const text = clusterText(config, true);
  expect(text).toBe(`apiVersion: sluice.dev/v1alpha1
kind: Cluster
format: 1
name: shop
complete: true
serviceCIDRs:
  - 10.96.0.0/12
  - fd00:10:96::/112
`);
  expect(readCluster('cluster.yaml', text)).toMatchObject({ name: 'shop', complete: true });
});

test('profile.yaml', () => {
  const text = profileText(
    profileWith({ nodePortAddresses: ['192.0.2.0/24', '10.0.0.0/8'], families: ['ipv6', 'ipv4'] }),
  );
  expect(text).toBe(`apiVersion: sluice.dev/v1alpha1
kind: Profile
mode: iptables
families:
  - ipv4
  - ipv6
needs:
  - random-fully
nodePortAddresses:
  - 10.0.0.0/8
  - 192.0.2.0/24
values:
  ipv4:
    clusterCIDR: 10.244.0.0/16
  ipv6:
    clusterCIDR: fd00:10:244::/56
`);
  expect(readProfile('profile.yaml', text)).toHaveProperty('families', ['ipv4', 'ipv6']);
});

test('profile.yaml of mode nftables has no requirement of iptables, and has the networks that its elements were made from', () => {
  const profile = profileWith({
    mode: 'nftables',
    nftables: { masqueradeAll: false },
    nodePortAddresses: ['10.0.0.0/8'],
  });
  const read = readProfile('profile.yaml', profileText(profile));
  expect(read).toMatchObject({ mode: 'nftables', needs: [], nodePortAddresses: ['10.0.0.0/8', '::/0'] });
});

test.each<[string, Partial<Profile>, object]>([
  ['the CIDRs of its families', { families: ['ipv4'] }, { ipv4: { clusterCIDR: '10.244.0.0/16' } }],
  ['no CIDR of a family that has none', { clusterCIDR: { ipv6: 'fd00::/56' } }, { ipv6: { clusterCIDR: 'fd00::/56' } }],
  [
    'a bridge',
    { detectLocalMode: 'BridgeInterface', detectLocal: { bridgeInterface: 'cni0', interfaceNamePrefix: 'x' } },
    { bridgeInterface: 'cni0' },
  ],
  [
    'a prefix of interfaces',
    { detectLocalMode: 'InterfaceNamePrefix', detectLocal: { bridgeInterface: '', interfaceNamePrefix: 'veth' } },
    { interfaceNamePrefix: 'veth' },
  ],
  ['nothing where nodes know their own CIDR', { detectLocalMode: 'NodeCIDR' }, {}],
])('a profile has the values that its detector needs: %s', (_title, rest, expected) => {
  expect(readProfile('profile.yaml', profileText(profileWith(rest)))).toHaveProperty('values', expected);
});

test('a profile without --random-fully needs nothing of its nodes', () => {
  const { iptables } = profileWith();
  const text = profileText(profileWith({ iptables: { ...iptables, randomFully: false } }));
  expect(readProfile('profile.yaml', text)).toHaveProperty('needs', []);
});

const whole: Partial<Node> = {
  zone: 'a',
  cores: 8,
  address: { ipv6: 'fd00::11', ipv4: '192.0.2.11' },
  podCIDR: { ipv4: '10.244.1.0/24', ipv6: 'fd00:10:244:1::/64' },
};

test('node.yaml', () => {
  const text = nodeText(node('node-1', whole), profileWith());
  expect(text).toBe(`apiVersion: sluice.dev/v1alpha1
kind: Node
profile: default
zone: a
values:
  cores: 8
  conntrackMax: 262144
  conntrackHashSize: 65536
  ipv4:
    address: 192.0.2.11
    podCIDR: 10.244.1.0/24
  ipv6:
    address: fd00::11
    podCIDR: fd00:10:244:1::/64
`);
  expect(readNode('node.yaml', text)).toHaveProperty('values.ipv6.address', 'fd00::11');
});

test.each<[string, Partial<Node>, Partial<Profile['conntrack']>, object]>([
  ['a node known by its name only', {}, {}, {}],
  ['few cores: the minimum', { cores: 1 }, {}, { cores: 1, conntrackMax: 131_072, conntrackHashSize: 32_768 }],
  ['no limit wanted', { cores: 8 }, { maxPerCore: 0 }, { cores: 8 }],
  ['one family', { podCIDR: { ipv6: 'fd00::/64' } }, {}, { ipv6: { podCIDR: 'fd00::/64' } }],
])('leaves unknown values out: %s', (_title, rest, conntrack, expected) => {
  const profile = profileWith({ conntrack: { ...profileWith().conntrack, ...conntrack } });
  expect(readNode('node.yaml', nodeText(node('node-1', rest), profile))).toHaveProperty('values', expected);
});

test.each<[KubeProxyVersion | undefined, number, number]>([
  [undefined, 131_072, 1_048_576],
  ['1.36', 2_097_152, 1_048_576],
  ['1.35', 131_072, 2_097_152],
])('64 cores beside kube-proxy %s, with a minimum of %i: %i connections', (kubeProxyVersion, min, conntrackMax) => {
  const profile = { ...profileWith({ conntrack: { ...profileWith().conntrack, min } }), kubeProxyVersion };
  const read = readNode('node.yaml', nodeText(node('node-1', { cores: 64 }), profile as Profile));
  expect(read).toHaveProperty('values', { cores: 64, conntrackMax, conntrackHashSize: conntrackMax / 4 });
});

test.each(['no', '1e3', '012', '1_000', '0x1f', 'on', '12:30', '2026-11-21', 'null', '~', '1.5'])(
  'zone %s stays a text for readers of YAML 1.1 and 1.2',
  (zone) => {
    const text = nodeText(node('node-1', { zone }), profileWith());
    expect(readNode('node.yaml', text)).toHaveProperty('zone', zone);
    expect(text).toMatch(/^zone: "/m);
  },
);
