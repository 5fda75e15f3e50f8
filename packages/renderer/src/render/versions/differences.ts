import type { Profile } from '../config.ts';
import {
  type Older,
  type Seen,
  withoutHeadlessService,
  withoutNodeHints,
  withoutProxyNameSlices,
  withoutUnaskedHints,
  withProxiedIngress,
} from './seen.ts';
import type { KubeProxyVersion } from './version.ts';

interface Difference {
  /** The first version that does it; of the versions before, the newest patch release counts. */
  readonly since: KubeProxyVersion;
  /** What kube-proxy does since then. */
  readonly now: string;
  /** What it did before. */
  readonly before: string;
}

/** A difference in which Services and endpoints there are. */
export interface SeenDifference extends Difference {
  readonly older: Older;
}

/** A difference in the rules themselves. */
export interface RuleDifference extends Difference {
  /** The function that leaves the rules as they were. */
  readonly followedBy: string;
  /** Whether a Service has other rules with an older version. */
  readonly concerns: (seen: Seen, profile: Profile) => boolean;
}

/** A difference that rules do not follow, and why. */
export interface OtherDifference extends Difference {
  readonly why: string;
}

/** Newest first, as they are taken back one after the other. Sources: `pkg/proxy` and `cmd/kube-proxy` of Kubernetes 1.28 to 1.37. */
export const seenDifferences: readonly SeenDifference[] = [
  {
    since: '1.36',
    now: 'A Service with the label `service.kubernetes.io/headless` that has a ClusterIP is served',
    before: 'It is ignored',
    older: withoutHeadlessService,
  },
  {
    since: '1.36',
    now: 'The label `service.kubernetes.io/service-proxy-name` on an EndpointSlice has no effect; on a Service it has',
    before: 'A slice with the label is ignored',
    older: withoutProxyNameSlices,
  },
  {
    since: '1.34',
    now: "An endpoint's hints for nodes (`hints.forNodes`, trafficDistribution PreferSameNode) are followed",
    before: 'They are ignored',
    older: withoutNodeHints,
  },
  {
    since: '1.31',
    now: "An endpoint's hints for zones (`hints.forZones`) are followed",
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
    since: '1.29',
    now: 'Mode ipvs: `loadBalancerSourceRanges` also hold for what a node itself sends (`KUBE-IPVS-OUT-FILTER`)',
    before: 'A node outside of the ranges gets in',
    followedBy: 'compileIpvsService',
    concerns: ({ service }, { mode }) => mode === 'ipvs' && service.sourceRanges.length > 0,
  },
];

export const otherDifferences: readonly OtherDifference[] = [
  {
    since: '1.36',
    now: 'Of two endpoints with one address and port the one that is not terminating counts',
    before: 'One that is local to the node counts, else either of them',
    why: 'Which of them it was depended on the order of a Go map, so that older versions had no behaviour to follow',
  },
  {
    since: '1.36',
    now: 'External IPs have no rules where the feature gate `AllowServiceExternalIPs` is off',
    before: 'There is no such gate, and kube-proxy does not start with it',
    why: 'The setting of the profile holds with any version',
  },
  {
    since: '1.34',
    now: 'A source range `0.0.0.0/0` or `::/0` is as good as none',
    before: 'It is a range like others; in mode ipvs the kernel does not take it into the set of ranges',
    why: 'Mode iptables lets in the same packets either way; in mode ipvs older versions shut out every client',
  },
  {
    since: '1.31',
    now: 'Some rules count packets (`-m nfacct`)',
    before: 'They do not',
    why: 'Counters change no packet',
  },
  {
    since: '1.29',
    now: 'Mode iptables: where `nf_conntrack_tcp_be_liberal` is not 0, as with `conntrack.tcpBeLiberal`, no rule drops INVALID packets',
    before: 'The rule is always there',
    why: 'The node decides it whatever the bundle says; dropped packets of a liberal kernel were packets of live connections',
  },
  {
    since: '1.29',
    now: 'kube-proxy can write nftables rules',
    before: 'It cannot',
    why: 'Sluice renders the modes iptables and ipvs',
  },
];
