import { families } from '../family.ts';
import type { PlaneName } from '../rules/mode-facts.ts';
import { ComparisonOfFrontends } from './compare-frontends.ts';
import { ComparisonOfServers } from './compare-servers.ts';
import { ComparisonOfTables } from './compare-tables.ts';
import { ServicesOfFrontends } from './of-frontends.ts';
import { ServicesOfServers } from './of-servers.ts';
import { ServicesOfTables, tableOf } from './of-tables.ts';
import type { DataPlane, ForwardingState, ServiceChange } from './services.ts';

const ofTables: DataPlane = {
  mode: 'iptables',
  isSeenByNat: true,
  read: (state) => new ServicesOfTables(state),
  compare: (from, to) => new ComparisonOfTables(from, to),
};

/** Layouts `flat` and `tree` differ in the names of chains, so states of one are compared with states of the same alone. */
const planes = {
  flat: ofTables,
  tree: { ...ofTables },
  ipvs: {
    mode: 'ipvs',
    // Conntrack has the translation of a virtual server, but not its origin (`ip_vs_update_conntrack` in `ip_vs_nfct.c`).
    isSeenByNat: false,
    read: (state) => new ServicesOfServers(state),
    compare: (from, to) => new ComparisonOfServers(from, to),
  },
  nftables: {
    mode: 'nftables',
    isSeenByNat: true,
    read: (state) => new ServicesOfFrontends(state),
    compare: (from, to) => new ComparisonOfFrontends(from, to),
  },
} as const satisfies Record<PlaneName, DataPlane>;

/**
 * The name of the data plane that a state is for. A state can have parts of two: where chains of a lost state directory were taken over, with
 * rules of layout `tree` the virtual servers are those of the kube-proxy in front of which they had been put.
 */
export function planeNameOf(state: ForwardingState): PlaneName {
  if (state.nft) return 'nftables';
  if (families.some((family) => tableOf(state, family, 'nat').chains.has('SLUICE-SERVICES'))) return 'tree';
  return state.ipvs ? 'ipvs' : 'flat';
}

/** The data plane that a state is for. */
export const planeOf = (state: ForwardingState): DataPlane => planes[planeNameOf(state)];

/** The Services that differ between two states. Those of another data plane are other Services. */
export function serviceChanges(from: ForwardingState, to: ForwardingState): readonly ServiceChange[] {
  const found = new Map<string, ServiceChange>();
  for (const plane of new Set([planeOf(from), planeOf(to)])) {
    const { changed, added, removed } = plane.compare(from, to);
    for (const change of [...changed, ...added, ...removed]) found.set(change.key, change);
  }
  return [...found.values()];
}
