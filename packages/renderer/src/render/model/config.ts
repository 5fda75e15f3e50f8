import type { Family, IpvsTimeouts, Mode } from '@sluice/netfilter';
import type { IpvsOptions } from '@sluice/bundle';
import type { PerFamily } from './model.ts';
import type { KubeProxyVersion } from './version.ts';

/** SluiceConfig merged with defaults and KubeProxyConfiguration, by `load/config.ts`. */
export interface SluiceConfig {
  readonly clusterName: string;
  /** `complete` of the config: the manifests have every Service and endpoint of the cluster. */
  readonly complete: boolean;
  /** In order: a node takes the first whose selector matches it. The last one matches every node. */
  readonly profiles: readonly Profile[];
  /** The networks of ClusterIPs; a new address is from the first one with a free address. sluice.yaml alone has one per family. */
  readonly serviceCIDRs: PerFamily<readonly string[]>;
  /** Service CIDRs that are being deleted: no new address is taken from them. */
  readonly closedServiceCIDRs?: readonly string[];
  /** The family of the first service CIDR, for Services without ipFamilies. */
  readonly primaryFamily: Family;
  readonly nodePortRange: { readonly from: number; readonly to: number };
  /** Whether sluice.yaml or ServiceCIDRs set these ranges; otherwise they are defaults, and may not be the cluster's. */
  readonly named: { readonly serviceCIDRs: boolean; readonly nodePortRange: boolean };
  /** Nodes without a manifest, by name. */
  readonly nodes: readonly ConfigNode[];
}

/** A label selector; `{}` matches every node. */
export interface LabelSelector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly {
    readonly key: string;
    readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
    readonly values?: readonly string[];
  }[];
}

/** A configuration of several nodes. Field names are those of KubeProxyConfiguration where it has them. */
export interface Profile {
  readonly name: string;
  readonly nodeSelector: LabelSelector;
  /** The kube-proxy version whose behaviour the rules follow; absent: `versionByDefault`. */
  readonly kubeProxyVersion?: KubeProxyVersion;
  readonly mode: Mode;
  /** Mode ipvs only. */
  readonly ipvs?: IpvsProfile;
  /** Mode nftables only. */
  readonly nftables?: NftablesProfile;
  readonly families: readonly Family[];
  readonly featureGates: {
    /** Whether external IPs of Services are served. */
    readonly AllowServiceExternalIPs: boolean;
    /** Mode nftables: node ports on loopback addresses are served or refused. Absent: by the version, on since 1.38. */
    readonly KubeProxyNFTablesLocalhostNodePorts?: boolean;
  };
  readonly iptables: {
    /** 0 to 31. */
    readonly masqueradeBit: number;
    readonly masqueradeAll: boolean;
    readonly localhostNodePorts: boolean;
    /** `MASQUERADE --random-fully`; kube-proxy finds out at run time whether iptables knows it. */
    readonly randomFully: boolean;
  };
  readonly detectLocalMode: 'ClusterCIDR' | 'NodeCIDR' | 'BridgeInterface' | 'InterfaceNamePrefix';
  readonly detectLocal: { readonly bridgeInterface: string; readonly interfaceNamePrefix: string };
  readonly clusterCIDR: PerFamily<string>;
  /** CIDRs and the words `primary`, `localhost` and `all`; empty: every address, in mode nftables `primary`. */
  readonly nodePortAddresses: readonly string[];
  readonly conntrack: {
    /** 0: do not set the limit. */
    readonly maxPerCore: number;
    readonly min: number;
    /** Seconds; 0: do not set it. */
    readonly tcpEstablishedTimeout: number;
    readonly tcpCloseWaitTimeout: number;
    readonly udpTimeout: number;
    readonly udpStreamTimeout: number;
    readonly tcpBeLiberal: boolean;
  };
  /** More sysctls of the allow-list, by key. */
  readonly sysctls: Readonly<Record<string, string>>;
}

/** Options of mode ipvs, which also uses the masquerading options of mode iptables. */
export interface IpvsProfile extends IpvsOptions {
  /** Seconds; 0: do not set it. */
  readonly timeouts: IpvsTimeouts;
}

/** Options of mode nftables, which uses none of mode iptables. */
export interface NftablesProfile {
  readonly masqueradeAll: boolean;
  /** TCP connections are refused with a reset. */
  readonly tcpReset?: boolean;
  /** Clients with session affinity that are remembered in each family. */
  readonly affinityClients?: number;
  /** New connections of each endpoint are counted. */
  readonly endpointCounters?: boolean;
}

export interface ConfigNode {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly addresses: readonly string[];
  readonly podCIDRs: readonly string[];
  readonly cores?: number;
}
