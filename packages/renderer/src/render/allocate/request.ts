import type { Family, Problem } from '@sluice/netfilter';
import type { Allocation } from './allocation.ts';
import type { KubeObject, Origin } from '../model/kube.ts';
import type { Protocol } from '../model/model.ts';
import { roughKey } from '../read/names.ts';
import type { SluiceConfig } from '../model/config.ts';

/** A Service that has or needs a ClusterIP (neither headless nor ExternalName). */
export interface AllocationRequest {
  readonly namespace: string;
  readonly name: string;
  /** The families of the Service in order, from `wantedFamilies`. */
  readonly families: readonly Family[];
  /** Canonical addresses from the manifest or the base, at most one per family. */
  readonly clusterIPs: readonly string[];
  readonly ports: readonly AllocationPort[];
  /** Types NodePort and LoadBalancer, unless `allocateLoadBalancerNodePorts` is false. */
  readonly wantsNodePorts: boolean;
  /** A number from the manifest or the base; `wanted`: type LoadBalancer with externalTrafficPolicy Local and no number yet. */
  readonly healthCheckNodePort: number | 'wanted' | 'none';
  /** The source of the Service object: problems point at fields below `spec`. */
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

/** Numbers in use outside of the requests and the allocation files. */
export interface Taken {
  /** Canonical addresses. */
  readonly addresses: ReadonlySet<string>;
  readonly nodePorts: ReadonlySet<number>;
}

export interface Allocated {
  /**
   * By `namespace/name`, for every request: all numbers of the Service, from the manifest, else its file, else new ones. `clusterIPs`
   * are in the order of the request's families.
   */
  readonly given: ReadonlyMap<string, Allocation>;
  /** Files to write, by `namespace/name`: only numbers that Sluice allocated. With `file` for an existing file with new numbers. */
  readonly created: readonly Allocation[];
  readonly problems: readonly Problem[];
}

/** `http/TCP`; `/TCP` for a port without a name. */
export function portKey(port: { readonly name: string; readonly protocol: Protocol }): string {
  return `${port.name}/${port.protocol}`;
}

/** `shop/web`, the key by which Services are sorted and found. */
export function serviceName(of: { readonly namespace: string; readonly name: string }): string {
  return `${of.namespace}/${of.name}`;
}

/** Seeds of the search for a number. They must never change: another seed would allocate other numbers. */
export const seedOf = {
  address: (service: string, family: Family): string => `${service} ${family}`,
  /** @param key from `portKey` */
  nodePort: (service: string, key: string): string => `${service}:${key}`,
  healthCheckNodePort: (service: string): string => `${service} healthCheckNodePort`,
};

export interface FamilySettings {
  readonly ipFamilyPolicy?: 'SingleStack' | 'PreferDualStack' | 'RequireDualStack';
  readonly ipFamilies: readonly Family[];
  /** The families of `clusterIPs`, in their order. */
  readonly ofClusterIPs: readonly Family[];
}

/**
 * The families in which a Service gets ClusterIPs, by the API server's rules (KEP-563): existing addresses decide first,
 * then `ipFamilies`, then the cluster's own order; two of either without a policy mean RequireDualStack, otherwise SingleStack.
 * @returns the families in order; empty when RequireDualStack needs a family that the cluster does not have
 */
export function wantedFamilies(
  settings: FamilySettings,
  config: Pick<SluiceConfig, 'serviceCIDRs' | 'primaryFamily'>,
): readonly Family[] {
  const second: Family = config.primaryFamily === 'ipv4' ? 'ipv6' : 'ipv4';
  const named = [...new Set([...settings.ofClusterIPs, ...settings.ipFamilies])];
  const ordered = [...new Set([...named, config.primaryFamily, second])];
  const hasTwo = settings.ipFamilies.length > 1 || settings.ofClusterIPs.length > 1;
  const policy = settings.ipFamilyPolicy ?? (hasTwo ? 'RequireDualStack' : 'SingleStack');
  if (policy === 'SingleStack') return ordered.slice(0, 1);
  const possible = ordered.filter(
    (family) => settings.ofClusterIPs.includes(family) || config.serviceCIDRs[family] !== undefined,
  );
  return policy === 'RequireDualStack' && possible.length < 2 ? [] : possible;
}

/**
 * The allocations whose Services are not among these objects. Their numbers stay reserved, so that a Service gets them again when it
 * returns to the input.
 * @param objects invalid Services count too, by their names
 */
export function unownedAllocations(
  allocations: readonly Allocation[],
  objects: readonly KubeObject[],
): readonly Allocation[] {
  const services = new Set(objects.filter(({ kind }) => kind === 'Service').map(roughKey));
  return allocations.filter((allocation) => !services.has(serviceName(allocation)));
}
