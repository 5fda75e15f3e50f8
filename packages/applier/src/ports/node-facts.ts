import type { Machine } from '@sluice/bundle';
import type { Family, SysctlKey } from '@sluice/netfilter';

/** Facts about the node that admission needs. kernel/facts.ts reads them. */
export interface NodeFacts extends Machine {
  /** Per family with tools: the version of iptables, such as `1.8.9`. */
  readonly tools: { readonly [F in Family]?: string };
  /** Tools of mode ipvs that the node lacks. */
  readonly ipvsToolsMissing: readonly string[];
  /** Process ids of running kube-proxies. */
  kubeProxies(): readonly number[];
  /** True when the sysctl has this value or can be given it. */
  sysctlTakes(key: SysctlKey, value: number): boolean;
}
