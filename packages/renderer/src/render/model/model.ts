import type { Ineligibility } from '@sluice/bundle';
import type { Family, MaglevSize, Scheduler } from '@sluice/netfilter';
import type { BehaviourVersion } from './version.ts';

/** `shop/web:http`, or `shop/web` for a port without a name, as in kube-proxy's comments. */
export type ServiceKey = string;
export type Protocol = 'TCP' | 'UDP' | 'SCTP';
/** The schedulers that have a counterpart in each mode but iptables. */
export type CommonScheduler = 'random' | 'round-robin' | 'source-hash' | 'maglev';
export type PerFamily<T> = { readonly [F in Family]?: T };

/**
 * The input of the compiler. All texts are validated: names are DNS labels, addresses canonical, ports in range. The order of every list
 * is independent of the order of the input.
 */
export interface Model {
  /** By name. */
  readonly nodes: readonly Node[];
  /** By `namespace/name` in byte order; without headless and ExternalName Services, which never have rules. */
  readonly services: readonly Service[];
  /** Services as older versions of kube-proxy serve them, for profiles with such a version: `servicesOf` chooses. */
  readonly older?: ReadonlyMap<BehaviourVersion, readonly Service[]>;
}

export interface Node {
  readonly name: string;
  readonly profile: string;
  readonly zone?: string;
  /** Only labels that weights of Services name. */
  readonly labels?: ReadonlyMap<string, string>;
  readonly cores?: number;
  /** The Node's own address per family: InternalIP before ExternalIP. */
  readonly address: PerFamily<string>;
  readonly podCIDR: PerFamily<string>;
  /** Why load balancers must not send to it. */
  readonly ineligible?: Ineligibility;
}

export interface Service {
  readonly namespace: string;
  readonly name: string;
  readonly type: 'ClusterIP' | 'NodePort' | 'LoadBalancer';
  /** `sluice.dev/scheduler`; absent: as the mode, or the profile of mode ipvs, chooses. Mode iptables has no schedulers and weights. */
  readonly scheduler?: CommonScheduler | Scheduler;
  /** `sluice.dev/maglev-table-size`: of scheduler `maglev`, in mode nftables. */
  readonly maglevSize?: MaglevSize;
  /** `sluice.dev/weights`: the first one that matches an endpoint's node is its weight; none: 1. */
  readonly weights?: readonly WeightRule[];
  /** By key, then protocol. */
  readonly ports: readonly ServicePort[];
}

/** The weight of endpoints on nodes with this label. For the zone label the endpoint's own zone takes precedence. */
export interface WeightRule {
  readonly label: string;
  readonly value: string;
  /** 1 to 65535. */
  readonly weight: number;
}

export interface ServicePort {
  readonly key: ServiceKey;
  /** `''` for a port without a name. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  /** 0: none. */
  readonly nodePort: number;
  /** 0: none. Only with type LoadBalancer and externalTrafficPolicy Local. */
  readonly healthCheckNodePort: number;
  readonly internalTrafficPolicy: 'Cluster' | 'Local';
  readonly externalTrafficPolicy: 'Cluster' | 'Local';
  /** sessionAffinity ClientIP: its time-out; absent: None. */
  readonly affinitySeconds?: number;
  /** The families in which the Service has a ClusterIP. */
  readonly families: PerFamily<PortOfFamily>;
}

/** The addresses and endpoints of a port in one family. */
export interface PortOfFamily {
  readonly clusterIP: string;
  /** In the Service's order, of this family, without repeats. */
  readonly externalIPs: readonly string[];
  /** Ingress addresses with ipMode VIP or none. */
  readonly loadBalancerIPs: readonly string[];
  /** CIDRs in the Service's order. Empty: all sources are admitted. */
  readonly loadBalancerSourceRanges: readonly string[];
  /** Merged over slices, by `ip:port` text in byte order (`10.244.10.1:80` before `10.244.9.1:80`). */
  readonly endpoints: readonly Endpoint[];
}

export interface Endpoint {
  readonly address: string;
  readonly port: number;
  /** `10.244.1.5:8080` or `[fd00::5]:8080`. */
  readonly text: string;
  readonly nodeName?: string;
  readonly zone?: string;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  /** Sorted; empty: no hints. */
  readonly hintZones: readonly string[];
  readonly hintNodes: readonly string[];
}

export type ServiceType = 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName';

export type TrafficPolicy = 'Cluster' | 'Local';
