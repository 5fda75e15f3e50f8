import type { Guard } from '@sluice/bundle';
import { expect, test } from 'vitest';
import type { Profile } from '../../model/config.ts';
import { profileWith } from '../sample.fixture.ts';
import type { Undetected } from '../undetected.ts';
import { nftBaseText, nftTableText } from './base.ts';

const profileOf = (rest: Partial<Profile> = {}): Profile =>
  profileWith({ mode: 'nftables', families: ['ipv4'], nodePortAddresses: ['primary'], ...rest });

/** The lines of base/last.nft without the words that all have. */
function linesOf(
  profile: Profile,
  { masqueradeAll = false, undetected = [] as Undetected, cidrs = {} } = {},
): readonly string[] {
  const text = nftBaseText(profile, { masqueradeAll }, { serviceCIDRs: cidrs, undetectedIn: () => undetected });
  return text
    .replaceAll(/add element inet sluice |^#.*\n/gm, '')
    .split('\n')
    .slice(0, -1);
}

test.each([
  ['no Service CIDR', {}, true],
  ['a Service CIDR', { ipv4: ['10.96.0.0/12'] }, false],
])('%s: a comment tells whether it is known', (_title, serviceCIDRs, isThere) => {
  const text = nftBaseText(profileOf(), { masqueradeAll: false }, { serviceCIDRs, undetectedIn: () => [] });
  expect(text.startsWith('# serviceCIDRs is not set: ')).toBe(isThere);
});

const named: Guard = { kind: 'node', negated: false, values: ['node-1'] };
const node = 'node4 { ${node.address} }';

test.each<[string, Partial<Profile>, Undetected, readonly string[]]>([
  ['a cluster CIDR', {}, [], ['pods4 { ${profile.clusterCIDR} }', 'keep4 { ${profile.clusterCIDR} }', node]],
  ['no cluster CIDR: all sources keep their address', { clusterCIDR: {} }, [], ['keep4 { 0.0.0.0/0 }', node]],
  [
    'pod CIDRs, which one node does not have',
    { detectLocalMode: 'NodeCIDR' },
    [named],
    ['pods4 { ${node.podCIDR} }', 'keep4 { ${node.podCIDR} }', '@node=node-1 keep4 { 0.0.0.0/0 }', node],
  ],
  ['an interface, which the table names', { detectLocalMode: 'BridgeInterface' }, [], [node]],
])('traffic of pods is told by %s', (_title, rest, undetected, expected) => {
  expect(linesOf(profileOf(rest), { undetected })).toEqual(expected);
});

test.each<[string, readonly string[], readonly string[]]>([
  ["the node's own address, as kube-proxy's default", [], ['${node.address}']],
  ["the node's own address", ['primary'], ['${node.address}']],
  ['every address', ['all'], ['0.0.0.0/0']],
  ['every address, as there is no network of the family', ['2001:db8::/32'], ['0.0.0.0/0']],
  ['networks', ['192.0.2.0/24', '192.0.2.7/32', '198.51.100.7/32'], ['192.0.2.0/24', '198.51.100.7']],
  ['networks and the own address', ['primary', '192.0.2.0/24'], ['${node.address}', '192.0.2.0/24']],
])('node ports are on %s', (_title, nodePortAddresses, expected) => {
  const lines = linesOf(profileOf({ nodePortAddresses, clusterCIDR: {} }), { masqueradeAll: true });
  expect(lines).toEqual(expected.map((element) => `node4 { ${element} }`));
});

test('each family of the profile has its sets, and its Service CIDRs if they are known', () => {
  const cidrs = { ipv4: ['10.96.0.0/12', '10.100.0.0/16'], ipv6: ['fd00:96::/112'] };
  const profile = profileOf({ families: ['ipv6', 'ipv4'] });
  expect(linesOf(profile, { cidrs, masqueradeAll: true })).toEqual([
    'pods4 { ${profile.clusterCIDR} }',
    node,
    'cidr4 { 10.96.0.0/12 }',
    'pods6 { ${profile.clusterCIDR} }',
    'node6 { ${node.address} }',
    'cidr6 { fd00:96::/112 }',
  ]);
});

test.each([
  ['ClusterCIDR', 'ip saddr != @keep4 masquerade fully-random'],
  ['NodeCIDR', 'ip saddr != @keep4 masquerade fully-random'],
  ['BridgeInterface', 'iifname != "${profile.bridgeInterface}" masquerade fully-random'],
  ['InterfaceNamePrefix', 'iifname != "${profile.interfaceNamePrefix}*" masquerade fully-random'],
] as const)('the table masquerades at a ClusterIP by detector %s', (detectLocalMode, rule) => {
  const [, chain] = /chain masquerade-cluster4 \{\n\s*(.*)\n/.exec(
    nftTableText(profileOf({ detectLocalMode }), { masqueradeAll: false }),
  )!;
  expect(chain).toBe(rule);
});
