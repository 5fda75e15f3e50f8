import type { Family, IpvsOptions, IpvsTimeouts, Mode } from '@sluice/bundle';
import type { PerFamily } from './model.ts';
import type { KubeProxyVersion } from './versions/version.ts';

/** SluiceConfig after defaults and KubeProxyConfiguration are merged in. `load/config.ts` makes it. */
export interface Config {
  readonly clusterName: string;
  /** The config says that the manifests name every Service and endpoint of the cluster. */
  readonly complete: boolean;
  /** In order: a node takes the first whose selector matches it. The last one matches every node. */
  readonly profiles: readonly Profile[];
  /** The networks of ClusterIPs; new addresses come out of the first that has one. Of sluice.yaml alone there is one per family. */
  readonly serviceCIDRs: PerFamily<readonly string[]>;
  /** Those out of which no new address comes any more. */
  readonly closedServiceCIDRs?: readonly string[];
  /** The family of the first service CIDR: what a Service gets that asks for no family. */
  readonly primaryFamily: Family;
  readonly nodePortRange: { readonly from: number; readonly to: number };
  /** Which of these ranges sluice.yaml or ServiceCIDRs name; the others are defaults, and say nothing of the cluster. */
  readonly named: { readonly serviceCIDRs: boolean; readonly nodePortRange: boolean };
  /** Nodes that no manifest names, by name. */
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

/** Nodes that are configured alike. Field names are those of KubeProxyConfiguration where it has them. */
export interface Profile {
  readonly name: string;
  readonly nodeSelector: LabelSelector;
  /** Whose behaviour the rules follow; absent: the profile names none, and `versionByDefault` holds. */
  readonly kubeProxyVersion?: KubeProxyVersion;
  readonly mode: Mode;
  /** In mode ipvs, and only there. */
  readonly ipvs?: IpvsProfile;
  readonly families: readonly Family[];
  readonly featureGates: {
    /** Whether external IPs of Services are served. */
    readonly AllowServiceExternalIPs: boolean;
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
  /** CIDRs and the words `primary`, `localhost` and `all`; empty: every address. */
  readonly nodePortAddresses: readonly string[];
  readonly conntrack: {
    /** 0: leave the limit alone. */
    readonly maxPerCore: number;
    readonly min: number;
    /** Seconds; 0: leave alone. */
    readonly tcpEstablishedTimeout: number;
    readonly tcpCloseWaitTimeout: number;
    readonly udpTimeout: number;
    readonly udpStreamTimeout: number;
    readonly tcpBeLiberal: boolean;
  };
  /** More sysctls of the allow-list, by key. */
  readonly sysctls: Readonly<Record<string, string>>;
}

/** What mode ipvs has besides the options of mode iptables, of which it follows the masquerading ones. */
export interface IpvsProfile extends IpvsOptions {
  /** Seconds; 0: leave alone. */
  readonly timeouts: IpvsTimeouts;
}

export interface ConfigNode {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly addresses: readonly string[];
  readonly podCIDRs: readonly string[];
  readonly cores?: number;
}
