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

export interface VersionDifference {
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
