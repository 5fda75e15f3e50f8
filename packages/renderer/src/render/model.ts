import type { Family, Scheduler } from '@sluice/bundle';
import type { Era } from './versions/eras.ts';

/** `shop/web:http`, or `shop/web` for a port without a name: the spelling of kube-proxy's comments and of everything here. */
export type ServiceKey = string;
export type Protocol = 'TCP' | 'UDP' | 'SCTP';
export type PerFamily<T> = { readonly [F in Family]?: T };

/**
 * Everything that the rules are made of. All texts are checked: names are DNS labels, addresses canonical, ports in range.
 * Every list has one order that does not depend on the input's.
 */
export interface Model {
  /** By name. */
  readonly nodes: readonly Node[];
  /** By `namespace/name` in byte order; only Services that have rules or may get some (no headless, no ExternalName). */
  readonly services: readonly Service[];
  /** The same as older versions of kube-proxy serve them, where profiles name such: `servicesOf` chooses. */
  readonly older?: ReadonlyMap<Era, readonly Service[]>;
}

export interface Node {
  readonly name: string;
  readonly profile: string;
  readonly zone?: string;
  /** Those that some Service's weights ask about. */
  readonly labels?: ReadonlyMap<string, string>;
  readonly cores?: number;
  /** The Node's own address per family: InternalIP before ExternalIP. */
  readonly address: PerFamily<string>;
  readonly podCIDR: PerFamily<string>;
}

export interface Service {
  readonly namespace: string;
  readonly name: string;
  readonly type: 'ClusterIP' | 'NodePort' | 'LoadBalancer';
  /** `sluice.dev/scheduler`; absent: the profile's. Only mode ipvs has schedulers and weights. */
  readonly scheduler?: Scheduler;
  /** `sluice.dev/weights`: the first that fits an endpoint's node says its weight; none: 1. */
  readonly weights?: readonly WeightRule[];
  /** By key, then protocol. */
  readonly ports: readonly ServicePort[];
}

/** Endpoints on nodes with this label get this weight. The label of zones asks the endpoint itself first. */
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

/** What a port has in one family. */
export interface PortOfFamily {
  readonly clusterIP: string;
  /** In the Service's order, of this family, without repeats. */
  readonly externalIPs: readonly string[];
  /** Ingress addresses with ipMode VIP or none. */
  readonly loadBalancerIPs: readonly string[];
  /** CIDRs in the Service's order. Empty: everybody may come. */
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
