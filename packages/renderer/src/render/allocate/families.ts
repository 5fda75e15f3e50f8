import type { Family } from '@sluice/netfilter';
import type { SluiceConfig } from '../model/config.ts';

export interface FamilySettings {
  readonly ipFamilyPolicy?: 'SingleStack' | 'PreferDualStack' | 'RequireDualStack';
  readonly ipFamilies: readonly Family[];
  /** The families of `clusterIPs`, in their order. */
  readonly ofClusterIPs: readonly Family[];
}

/**
 * The families in which a Service gets ClusterIPs, by the API server's rules (KEP-563): existing addresses decide first,
 * then `ipFamilies`, then the cluster's own order; two of either without a policy mean RequireDualStack, otherwise SingleStack.
 * @returns the families in order; empty when RequireDualStack needs a family that the cluster does not have
 */
export function wantedFamilies(
  settings: FamilySettings,
  config: Pick<SluiceConfig, 'serviceCIDRs' | 'primaryFamily'>,
): readonly Family[] {
  const second: Family = config.primaryFamily === 'ipv4' ? 'ipv6' : 'ipv4';
  const named = [...new Set([...settings.ofClusterIPs, ...settings.ipFamilies])];
  const ordered = [...new Set([...named, config.primaryFamily, second])];
  const hasTwo = settings.ipFamilies.length > 1 || settings.ofClusterIPs.length > 1;
  const policy = settings.ipFamilyPolicy ?? (hasTwo ? 'RequireDualStack' : 'SingleStack');
  if (policy === 'SingleStack') return ordered.slice(0, 1);
  const possible = ordered.filter(
    (family) => settings.ofClusterIPs.includes(family) || config.serviceCIDRs[family] !== undefined,
  );
  return policy === 'RequireDualStack' && possible.length < 2 ? [] : possible;
}
