import { expect, test } from 'vitest';
import { inFamily, node, portWith, profileWith, serviceOf } from './compile/sample.fixture.ts';
import type { Profile } from './model/config.ts';
import { detectorGaps } from './assemble.ts';
import type { PerFamily } from './model/model.ts';

const here = { ipv4: inFamily(), ipv6: inFamily({ clusterIP: 'fd00:96::7' }) };
const v4 = { ipv4: '10.244.0.0/16' };
const both = { ...v4, ipv6: 'fd00:10:244::/56' };

/** `family: what is said to be missing`, for Services of some families on two nodes. */
function gaps(rest: Partial<Profile>, podCIDR: PerFamily<string> = {}, families: PerFamily<unknown> = here): string[] {
  const served = Object.fromEntries(Object.keys(families).map((family) => [family, here[family as 'ipv4']]));
  const model = {
    nodes: [node('node-2', { podCIDR }), node('node-1', { podCIDR }), node('other', { profile: 'other' })],
    services: [serviceOf([portWith({}, { families: served })])],
  };
  const found = detectorGaps(model, [profileWith({ clusterCIDR: {}, ...rest })]);
  expect(found.every(({ code, level }) => code === 'DETECTOR_MISSING' && level === 'note')).toBe(true);
  expect(
    found.every(({ message }) =>
      message.endsWith(': traffic from outside the cluster to ClusterIPs is not masqueraded'),
    ),
  ).toBe(true);
  return found.map(({ message }) => message.slice(0, message.indexOf(': ')));
}
const clusterCIDR = (family: string): string => `clusterCIDR is not set for ${family}`;
const podCIDR = (family: string): string => `there is no ${family} pod CIDR of node-1, node-2`;
const nodeCIDR = { detectLocalMode: 'NodeCIDR' } as const;

test.each<[string, string[], string[]]>([
  ['no clusterCIDR', gaps({}), [clusterCIDR('IPv4'), clusterCIDR('IPv6')]],
  ['a clusterCIDR of one family', gaps({ clusterCIDR: v4 }), [clusterCIDR('IPv6')]],
  ['a clusterCIDR of both', gaps({ clusterCIDR: both }), []],
  ['a family that no Service has', gaps({ clusterCIDR: v4 }, {}, v4), []],
  ['a family that the profile does not have', gaps({ clusterCIDR: v4, families: ['ipv4'] }), []],
  ['nodes without pod CIDRs', gaps(nodeCIDR), [podCIDR('IPv4'), podCIDR('IPv6')]],
  ['nodes with pod CIDRs of one family', gaps(nodeCIDR, v4), [podCIDR('IPv6')]],
  ['nodes with pod CIDRs of both', gaps(nodeCIDR, both), []],
  ['a bridge', gaps({ detectLocalMode: 'BridgeInterface' }), []],
  ['an interface prefix', gaps({ detectLocalMode: 'InterfaceNamePrefix' }), []],
])('%s', (_title, found, expected) => {
  expect(found).toEqual(expected);
});

test('names only some of many nodes', () => {
  const nodes = Array.from({ length: 7 }, (_, n) => node(`node-${n}`));
  const model = { nodes, services: [serviceOf([portWith({})])] };
  const [found] = detectorGaps(model, [profileWith({ ...nodeCIDR, families: ['ipv4'] })]);
  expect(found?.message).toContain('of node-0, node-1, node-2, node-3, node-4 and 2 more:');
});

test.each<[string, PerFamily<string>, number]>([
  ['nodes without pod CIDRs', {}, 1],
  ['nodes with pod CIDRs of the other family', { ipv6: 'fd00:10:244::/64' }, 1],
  ['nodes with pod CIDRs', { ipv4: '10.244.1.0/24' }, 0],
])('without clusterCIDR and with %s', (_title, known, count) => {
  const model = { nodes: [node('node-1', { podCIDR: known })], services: [serviceOf([portWith({})])] };
  expect(detectorGaps(model, [profileWith({ clusterCIDR: {}, families: ['ipv4'] })])).toHaveLength(count);
});
