import { type Family, jumpedChains, type TableName, tableNames, targetOf } from '@sluice/netfilter';
import { familyNames, type NodeState, type Observed, tableOf } from '../../ports/node-state.ts';

/** A foreign rule before one of our jumps. */
export interface EarlyRule {
  readonly family: Family;
  readonly table: TableName;
  /** The built-in chain. */
  readonly hook: string;
  /** As `iptables-save` prints it. */
  readonly rule: string;
}

/**
 * Chains of CNI plugins and of the kubelet. Plugins in insert mode keep their jumps first on purpose (Calico's `ChainInsertMode`), also
 * beside kube-proxy.
 */
const ofCluster = /^(?:cali-|CILIUM_|FLANNEL-|CNI-|WEAVE|ANTREA-|KUBE-)/;

/** Whether the rule belongs to a kube-proxy: if its jumps are first, it serves all packets, and releases of Sluice have no effect. */
export const isOfKubeProxy = ({ rule }: EarlyRule): boolean => jumpedChains.has(targetOf(rule) ?? '');

/**
 * The foreign rules that packets of Services may meet before our jumps, except those that lead into chains of a CNI plugin.
 * @param observed the whole tables
 * @param ours our part of them
 */
export function earlyRules(observed: Observed, ours: Pick<NodeState, 'families'>): readonly EarlyRule[] {
  return familyNames.flatMap((family) =>
    tableNames.flatMap((table) => {
      const jumps = new Set(tableOf(ours, family, table).jumps);
      if (jumps.size === 0) return [];
      return [...(observed[family]?.[table].chains ?? [])].flatMap(([hook, { builtIn, rules }]) => {
        const last = builtIn ? rules.findLastIndex((rule) => jumps.has(rule)) : -1;
        const early = rules.slice(0, Math.max(last, 0)).filter((rule) => !jumps.has(rule) && !isOfCluster(rule));
        return early.map((rule) => ({ family, table, hook, rule }));
      });
    }),
  );
}

function isOfCluster(rule: string): boolean {
  const target = targetOf(rule) ?? '';
  return ofCluster.test(target) && !jumpedChains.has(target);
}
