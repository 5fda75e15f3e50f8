import { type Family, nodePortJumps, servicesChain } from '@sluice/netfilter';
import { foreignProxyChains, ownState } from '../../apply/plan/ownership.ts';
import { chainNames, familyNames, type NodeState, type Observed, type OwnedNames } from '../../ports/node-state.ts';

/** The names of chains of kube-proxy that are not ours. @param active the state of ours */
export const proxyChains = (observed: Observed, active: NodeState): OwnedNames =>
  foreignProxyChains(observed, chainNames(active));

/** Those chains with the jumps to them, as generation 0 has them. */
export const proxyState = (observed: Observed, active: NodeState): NodeState => ({
  families: ownState(observed, proxyChains(observed, active), { families: {} }),
  sysctls: new Map(),
});

/**
 * Whether rules of kube-proxy are left that packets can meet. Chains that only a foreign rule leads to stay (`adaptDesired`): without the
 * jumps of kube-proxy they serve no packet of a Service.
 */
export function hasProxyRules(observed: Observed, active: NodeState): boolean {
  const { families } = proxyState(observed, active);
  return familyNames.some((family) =>
    (['nat', 'filter'] as const).some((table) => (families[family]?.[table].jumps.length ?? 0) > 0),
  );
}

/**
 * Whether a kube-proxy in mode iptables or ipvs has written its rules for a family. It makes its chains and jumps first, and then all rules of both
 * tables at once, after virtual servers and sets; of nat's entry chain one to node ports is always there, `KUBE-NODE-PORT` in mode ipvs
 * (`pkg/proxy/iptables/proxier.go`, `pkg/proxy/ipvs/proxier.go`).
 */
export const hasWritten = (observed: Observed, family: Family): boolean => lastRules(observed, family).length > 0;

/** The rules that show it. */
export const lastRules = (observed: Observed, family: Family): readonly string[] =>
  nodePortJumps(observed[family]?.nat.chains.get(servicesChain)?.rules ?? []);
