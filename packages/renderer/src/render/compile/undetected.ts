import type { Family } from '@sluice/netfilter';
import type { Guard } from '@sluice/bundle';
import type { Profile } from '../model/config.ts';
import type { Model } from '../model/model.ts';
import { type NodeFleet, nodeGuards } from '../select/guards.ts';

/** Guards of the nodes without a value for the detector; undefined: every node of the profile. */
export type Undetected = readonly (Guard | undefined)[];

/** Guards of the profile's nodes that have no pod CIDR for detectLocalMode NodeCIDR in a family. */
export function undetectedNodes(profile: Profile, family: Family, model: Model, fleet: NodeFleet): Undetected {
  if (profile.detectLocalMode !== 'NodeCIDR') return [];
  const nodes = model.nodes.filter((node) => node.profile === profile.name);
  const without = nodes.filter((node) => node.podCIDR[family] === undefined).map((node) => node.name);
  if (without.length === 0) return [];
  return without.length === nodes.length ? [undefined] : nodeGuards(without, fleet, true);
}
