import { canonicalRule, type Family, type TableName, tableNames, treeEntries, isTagged } from '@sluice/netfilter';
import { planNftRemoval } from '../../ports/nftables/plan.ts';
import { leavesServers, planLeaving, tablePlan } from '../plan/plan.ts';
import { withSteps } from '../plan/transaction-plan.ts';
import { familyNames, type NodeState, type Observed, rootsOf, tableOf } from '../../ports/node-state.ts';
import { notBeneath } from './beneath.ts';
import type { NodePlane } from './plane.ts';
import { planBySwitch, planInOrder, planUpdate, tablesDiffer } from './tree-plan.ts';

/**
 * Mode iptables in layout `tree`. A release: its chains beside the old ones, then the switch, then the defaults; nothing of the old program
 * is removed before the commit record. Without a switch, filter calls both programs, then nat changes to the new one. What another data
 * plane has is removed last, after everything that led to it.
 */
export const treePlane: NodePlane = {
  name: 'tree',
  mode: 'iptables',
  label: 'layout tree',
  hasSwitch: true,
  hasOwnTable: false,
  failsHarmlessly: true,
  hasServers: false,
  namesServices: true,
  // The switch does not lead from one data plane to another.
  flipOf: (now, desired, its) =>
    !now.nft && its.isOnlyNft !== true && tablesDiffer(now, desired) ? 'switch' : 'ordered',
  planRelease: ({ now, desired }, flip, options, { virtual, nft }) => {
    const servers = virtual ? { virtual } : {};
    const planned = (flip === 'switch' ? planBySwitch : planInOrder)(
      now,
      desired,
      options,
      leavesServers(desired, servers),
    );
    const removal = nft ? planNftRemoval(nft) : [];
    const finish = planLeaving(planned.finish, now, desired, servers);
    return { ...planned, cutOver: withSteps(planned.cutOver, removal), finish };
  },
  planUpdate: ({ now, desired }, options) => planUpdate(now, desired, options),
  planNewerEndpoints: (before, after, options) => {
    const order = { from: before.afterCutOver, tables: ['nat', 'filter'], because: 'newer endpoints' } as const;
    return tablePlan(after.afterCutOver, order, options);
  },
  missing: async () => undefined,
  shows: async (observed, state) =>
    familyNames.every((family) => tableNames.every((table) => tableShows(observed, state, family, table))),
  observeOwn: async () => ({}),
  nativeFiles: () => ({}),
  // It has the priority of kube-proxy's mode nftables, and of two the kernel asks the one that was loaded last.
  refusesBeneath: (proxies) =>
    proxies.includes('nftables')
      ? notBeneath(
          'nftables',
          'Give the node a profile in mode nftables, whose rules always come first; mode iptables can follow later',
        )
      : undefined,
};

/** Whether every entry chain of a table falls back to the roots of a state, and the kernel has all its tagged chains with their rules. */
function tableShows(observed: Observed, state: NodeState, family: Family, table: TableName): boolean {
  const chains = observed[family]?.[table].chains;
  const rulesOf = (name: string): readonly string[] | undefined => chains?.get(name)?.rules;
  const expected = tableOf(state, family, table);
  const roots = rootsOf(table, expected);
  const sameRoots = treeEntries[table].every((entry) => {
    const leads = rulesOf(entry)?.filter((rule) => !rule.includes(' --match-set ')) ?? [];
    const [root] = leads.flatMap((rule) => / -g (\S+)$/.exec(rule)?.[1] ?? []);
    return root === roots.get(entry);
  });
  const spell = (rules: readonly string[] | undefined): string | undefined => rules?.map(canonicalRule).join('\n');
  return (
    sameRoots && [...expected.chains].every(([name, rules]) => !isTagged(name) || spell(rules) === spell(rulesOf(name)))
  );
}
