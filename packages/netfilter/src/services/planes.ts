import { families } from '../family.ts';
import type { PlaneName } from '../rules/mode-facts.ts';
import { ComparisonOfFrontends } from './compare-frontends.ts';
import { ComparisonOfServers } from './compare-servers.ts';
import { ComparisonOfTables } from './compare-tables.ts';
import { ServicesOfFrontends } from './of-frontends.ts';
import { ServicesOfServers } from './of-servers.ts';
import { ServicesOfTables, tableOf } from './of-tables.ts';
import type { Comparison, DataPlane, ForwardingState, ServiceChange } from './services.ts';

/**
 * Remembers the last comparison of a state, weakly: classification, early endpoints and the hold of removals ask one after the other about
 * the same two states, and in layout `flat` a comparison reads every chain (0.1 s of 10,000 Services).
 */
function remembered(compare: DataPlane['compare']): DataPlane['compare'] {
  type Last = { readonly to: ForwardingState; readonly comparison: unknown };
  const known = new WeakMap<ForwardingState, WeakRef<Last>>();
  return <S extends ForwardingState>(from: S, to: S): Comparison<S> => {
    const last = known.get(from)?.deref();
    if (last?.to === to) return last.comparison as Comparison<S>;
    const comparison = compare(from, to);
    known.set(from, new WeakRef({ to, comparison }));
    return comparison;
  };
}

const ofTables: DataPlane = {
  mode: 'iptables',
  isSeenByNat: true,
  read: (state) => new ServicesOfTables(state),
  compare: remembered((from, to) => new ComparisonOfTables(from, to)),
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
