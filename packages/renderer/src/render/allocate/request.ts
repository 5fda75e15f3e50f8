import type { Family, Problem } from '@sluice/bundle';
import type { Allocation } from './allocation.ts';
import type { Origin } from '../kube.ts';
import type { Protocol } from '../model.ts';

/** What allocation must know about one Service that has a ClusterIP or is to get one (neither headless nor ExternalName). */
export interface AllocationRequest {
  readonly namespace: string;
  readonly name: string;
  /** The families the Service wants, in its order: `wantedFamilies` says which. */
  readonly families: readonly Family[];
  /** Canonical addresses from the manifest or the base, at most one per family. */
  readonly clusterIPs: readonly string[];
  readonly ports: readonly AllocationPort[];
  /** Types NodePort and LoadBalancer, unless `allocateLoadBalancerNodePorts` is false. */
  readonly wantsNodePorts: boolean;
  /** A number from the manifest or the base; `wanted`: type LoadBalancer with externalTrafficPolicy Local and no number yet. */
  readonly healthCheckNodePort: number | 'wanted' | 'none';
  /** Of the Service object: problems point at fields below `spec`. */
  readonly origin: Origin;
}

export interface AllocationPort {
  /** `''` for a port without a name. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  /** From the manifest or the base; 0: none. */
  readonly nodePort: number;
}

/** Numbers that are in use by something other than the requests and the allocation files. */
export interface Taken {
  /** Canonical addresses. */
  readonly addresses: ReadonlySet<string>;
  readonly nodePorts: ReadonlySet<number>;
}

export interface Allocated {
  /**
   * By `namespace/name`, for every request: all numbers the Service has now, those of the manifest first, then those of its
   * file, then new ones. `clusterIPs` stand in the order of the request's families.
   */
  readonly given: ReadonlyMap<string, Allocation>;
  /** Files to write, by `namespace/name`: only what Sluice gave. With `file` where an existing file gains numbers. */
  readonly created: readonly Allocation[];
  readonly problems: readonly Problem[];
}

/** `http/TCP`; `/TCP` for a port without a name. */
export function portKey(port: { readonly name: string; readonly protocol: Protocol }): string {
  return `${port.name}/${port.protocol}`;
}

/** `shop/web`: how Services are sorted and found. */
export function serviceName(of: { readonly namespace: string; readonly name: string }): string {
  return `${of.namespace}/${of.name}`;
}

/** The texts whose hash says where a number is looked for. They never change: another text would be another first choice. */
export const seedOf = {
  address: (service: string, family: Family): string => `${service} ${family}`,
  /** @param key as `portKey` makes it */
  nodePort: (service: string, key: string): string => `${service}:${key}`,
  healthCheckNodePort: (service: string): string => `${service} healthCheckNodePort`,
};
