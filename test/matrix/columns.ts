import type { Mode } from '@sluice/netfilter';
import type { KubeProxyVersion } from '../../packages/renderer/src/render/model/version.ts';

/** What forwards packets on a node, and what keeps it: a column of the table of features. */
export interface Column {
  readonly name: string;
  readonly mode: Mode;
  /** Of mode iptables. */
  readonly layout: 'tree' | 'flat';
  /** That the rules follow; absent: the default one. */
  readonly kubeProxyVersion?: KubeProxyVersion;
}

/** The data planes. Mode iptables has two layouts, and a node two rule stores, which read the same text. */
export const columns = [
  { name: 'iptables tree', mode: 'iptables', layout: 'tree' },
  { name: 'iptables flat', mode: 'iptables', layout: 'flat' },
  { name: 'ipvs', mode: 'ipvs', layout: 'flat' },
  { name: 'nftables', mode: 'nftables', layout: 'flat' },
] as const satisfies readonly Column[];
