import type { Profile } from '../model/config.ts';
import {
  type Downgrade,
  type ServiceWithSlices,
  withoutHeadlessService,
  withoutNodeHints,
  withoutProxyNameSlices,
  withoutUnaskedHints,
  withProxiedIngress,
} from './downgrades.ts';
import type { KubeProxyVersion } from '../model/version.ts';

interface VersionDifference {
  /** The first version with the change; `before` describes the newest patch releases of older versions. */
  readonly since: KubeProxyVersion;
  /** The behaviour since then. */
  readonly now: string;
  /** The behaviour before. */
  readonly before: string;
}

/** A difference in the Services and endpoints that kube-proxy uses. */
interface ObjectDifference extends VersionDifference {
  readonly older: Downgrade;
}

/** A difference in the rules themselves. */
interface RuleDifference extends VersionDifference {
  /** The function that implements it. */
  readonly followedBy: string;
  /** Whether a Service has other rules with an older version. */
  readonly concerns: (input: ServiceWithSlices, profile: Profile) => boolean;
}

/** A difference that rules do not reproduce, with the reason. */
interface OtherDifference extends VersionDifference {
  readonly why: string;
}

/** Newest first, the order in which they are reverted. Sources: `pkg/proxy` and `cmd/kube-proxy` of Kubernetes 1.28 to 1.38 (v1.38.0-beta.0). */
export const objectDifferences: readonly ObjectDifference[] = [
  {
    since: '1.36',
    now: 'A Service with the label `service.kubernetes.io/headless` that has a ClusterIP is served',
    before: 'It is ignored',
    older: withoutHeadlessService,
  },
  {
    since: '1.36',
    now: 'The label `service.kubernetes.io/service-proxy-name` has no effect on an EndpointSlice, only on a Service',
    before: 'A slice with the label is ignored',
    older: withoutProxyNameSlices,
  },
  {
    since: '1.34',
    now: "An endpoint's hints for nodes (`hints.forNodes`, trafficDistribution PreferSameNode) are used",
    before: 'They are ignored',
    older: withoutNodeHints,
  },
  {
    since: '1.31',
    now: "An endpoint's hints for zones (`hints.forZones`) are used",
    before:
      'They are ignored unless the Service has the annotation `service.kubernetes.io/topology-mode` or `…/topology-aware-hints` with a value other than `disabled`',
    older: withoutUnaskedHints,
  },
  {
    since: '1.30',
    now: 'A load-balancer address with `ipMode: Proxy` has no rules',
    before: 'It has rules like any other address',
    older: withProxiedIngress,
  },
];

export const ruleDifferences: readonly RuleDifference[] = [
  {
    since: '1.38',
    now: 'Mode nftables: node ports on loopback addresses are rejected, or served on 127.0.0.1 and `::1` for TCP where a CIDR of `nodePortAddresses` other than a whole family contains the address (feature gate `KubeProxyNFTablesLocalhostNodePorts`)',
    before: 'No rule matches them; the gate is off',
    followedBy: 'localhostOfTable',
    // A profile without a version follows one that does as older ones do.
    concerns: () => false,
  },
  {
    since: '1.36',
    now: '`nf_conntrack_max` by `conntrack.maxPerCore` is 1,048,576 at most, whatever `conntrack.min` says',
    before: 'It has no maximum',
    followedBy: 'conntrackValues',
    concerns: () => false,
  },
  {
    since: '1.29',
    now: 'Mode ipvs: `loadBalancerSourceRanges` also apply to traffic of the node itself (`KUBE-IPVS-OUT-FILTER`)',
    before: 'A node outside of the ranges can connect',
    followedBy: 'compileIpvsService',
    concerns: ({ service }, { mode }) => mode === 'ipvs' && service.sourceRanges.length > 0,
  },
];

export const otherDifferences: readonly OtherDifference[] = [
  {
    since: '1.38',
    now: 'Tracked connections of UDP to addresses of a deleted Service, or of a deleted port of one, are removed',
    before: 'They stay, and clients that keep sending go on to the former endpoint',
    why: 'No rule does it; `sluiced` removes them whatever the version',
  },
  {
    since: '1.38',
    now: 'ServiceCIDRs are always read: mode nftables drops packets to their addresses without a Service',
    before: 'The gate `MultiCIDRServiceAllocator` decides',
    why: 'ServiceCIDRs of the input are used with any version',
  },
  {
    since: '1.38',
    now: 'kube-proxy does not start with the gates `NFTablesProxyMode`, `MultiCIDRServiceAllocator` and `PreferSameTrafficDistribution`',
    before: 'It starts with their default values',
    why: 'They change no rule; a configuration that names one is a warning (`CONFIG_IGNORED`) in a profile of this version',
  },
  {
    since: '1.37',
    now: 'Tracked connections of UDP to addresses of a Service without a serving endpoint are removed (at its node ports they stay)',
    before:
      'They stay, and clients that keep sending go on to the former endpoint, or to where the packets went before the Service came',
    why: 'No rule does it; `sluiced` removes them whatever the version, at node ports, too',
  },
  {
    since: '1.37',
    now: '`nf_conntrack_max` is raised, and never lowered',
    before: 'It is set, also where the node has a higher one',
    why: 'A bundle names the value of a node; `conntrack.maxPerCore: 0` leaves it to the node',
  },
  {
    since: '1.37',
    now: 'kube-proxy exits when the addresses of its Node change, or when the Node is deleted, and starts again',
    before: 'It logs that, and goes on with the former addresses',
    why: 'Addresses of Nodes are in the bundle: the next render has the new ones, and a node without a bundle keeps its rules',
  },
  {
    since: '1.36',
    now: 'Of two endpoints with one address and port the one that is not terminating takes precedence',
    before: 'The one that is local to the node takes precedence, else either of them',
    why: 'The choice depended on the order of a Go map, so older versions have no defined behaviour',
  },
  {
    since: '1.36',
    now: 'External IPs have no rules where the feature gate `AllowServiceExternalIPs` is off',
    before: 'There is no such gate, and kube-proxy does not start with it',
    why: 'The setting of the profile applies to any version',
  },
  {
    since: '1.34',
    now: 'A source range `0.0.0.0/0` or `::/0` is ignored',
    before: 'It is a range like any other; in mode ipvs the kernel does not accept it in the set of ranges',
    why: 'Mode iptables admits the same packets either way; in mode ipvs older versions block every client that no other range admits, which `sluice parity` names (`VERSION_ZERO_RANGE`)',
  },
  {
    since: '1.33',
    now: 'Mode nftables: packets of the node itself are refused once they are translated, and once source ranges were asked for',
    before:
      'Before that: dropped at outer addresses that policy Local leaves without an endpoint there; rejected, not dropped, without endpoints where source ranges leave the node out',
    why: 'The mode was not the default then; `sluice parity` names such packets (`VERSION_EARLY_CHECKS`)',
  },
  {
    since: '1.31',
    now: 'Some rules count packets (`-m nfacct`)',
    before: 'They do not',
    why: 'Counters do not affect packets',
  },
  {
    since: '1.29',
    now: 'Mode iptables: where `nf_conntrack_tcp_be_liberal` is not 0, as with `conntrack.tcpBeLiberal`, no rule drops INVALID packets',
    before: 'The rule is always there',
    why: 'The node decides it, independent of the bundle; packets that a liberal kernel drops belong to live connections',
  },
  {
    since: '1.29',
    now: 'kube-proxy can write nftables rules',
    before: 'It cannot',
    why: 'The setting of the profile applies to any version',
  },
];
