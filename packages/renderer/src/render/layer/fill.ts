import type { Family } from '@sluice/netfilter';
import { familyOf } from '../read/addresses.ts';
import type { ReadNode } from '../read/node.ts';
import type { ReadService } from '../read/read-service.ts';
import type { ReadPort } from '../read/service-ports.ts';

/**
 * A changed Service with values that the cluster filled into the old one and the manifest leaves out: addresses, families, node
 * ports, health-check node port, load-balancer status. The API server does the same on an update (`patchAllocatedValues`).
 * A Service that becomes headless or ExternalName, or was one, keeps none of them.
 */
export function fillService(next: ReadService, old: ReadService): ReadService {
  if (!hasAddress(next) || !hasAddress(old)) return next;
  const isBalancer = next.type === 'LoadBalancer';
  const hasHealthPort = isBalancer && next.externalTrafficPolicy === 'Local';
  return {
    ...next,
    ...fillAddresses(next, old),
    ports: fillPorts(next, old),
    ...(isBalancer && !hasStatus(next) && { ingress: old.ingress, proxiedIngress: old.proxiedIngress }),
    healthCheckNodePort: next.healthCheckNodePort || (hasHealthPort ? old.healthCheckNodePort : 0),
  };
}

/** Whether the manifest has addresses of the load balancer. */
function hasStatus({ ingress, proxiedIngress }: ReadService): boolean {
  return ingress.length > 0 || proxiedIngress.length > 0;
}

/** Neither headless nor ExternalName. */
export function hasAddress(service: ReadService): boolean {
  return !service.headless && service.type !== 'ExternalName';
}

type Addresses = Pick<ReadService, 'clusterIPs' | 'ipFamilies' | 'ipFamilyPolicy'>;

/**
 * The manifest's addresses, then the old ones of other families. A list `clusterIPs` is complete; `ipFamilies` limits and orders the
 * families; SingleStack keeps one.
 */
function fillAddresses(next: ReadService, old: ReadService): Addresses {
  const policy = next.ipFamilyPolicy ?? old.ipFamilyPolicy;
  const ipFamilies = next.ipFamilies.length > 0 ? next.ipFamilies : old.ipFamilies;
  const kept = new Map<Family, string>();
  for (const address of [...next.clusterIPs, ...(next.listsAll ? [] : old.clusterIPs)]) {
    const family = familyOf(address);
    const mayStay = next.ipFamilies.length === 0 || next.ipFamilies.includes(family);
    if (mayStay && !kept.has(family)) kept.set(family, address);
  }
  const order = next.clusterIPs.length > 0 ? next.clusterIPs.map(familyOf) : ipFamilies;
  const sorted = new Set([...order.filter((family) => kept.has(family)), ...kept.keys()]);
  const clusterIPs = [...sorted].map((family) => kept.get(family) ?? '');
  return {
    clusterIPs: policy === 'SingleStack' ? clusterIPs.slice(0, 1) : clusterIPs,
    ipFamilies: policy === 'SingleStack' ? ipFamilies.slice(0, 1) : ipFamilies,
    ipFamilyPolicy: policy,
  };
}

/** A node port stays with the port of the same name and protocol, else of the same number and protocol. */
function fillPorts(next: ReadService, old: ReadService): readonly ReadPort[] {
  const hasNodePorts = next.type === 'NodePort' || next.type === 'LoadBalancer';
  const used = new Set(next.ports.map((port) => `${port.nodePort}/${port.protocol}`));
  return next.ports.map((port) => {
    const before = formerPort(port, next.ports, old.ports);
    if (!before) return port;
    const renamed = before.name === port.name ? {} : { formerName: before.name };
    const isFree = !used.has(`${before.nodePort}/${port.protocol}`);
    const nodePort = port.nodePort || (hasNodePorts && isFree ? before.nodePort : 0);
    return { ...port, ...renamed, nodePort };
  });
}

/** The former version of a port: the one with its name, else the one with its number whose name no other port has. */
export function formerPort(
  port: ReadPort,
  ports: readonly ReadPort[],
  oldPorts: readonly ReadPort[],
): ReadPort | undefined {
  const ofProtocol = oldPorts.filter((old) => old.protocol === port.protocol);
  const named = ofProtocol.find((old) => old.name === port.name);
  if (named) return named;
  const isTaken = (old: ReadPort): boolean =>
    ports.some((other) => other.name === old.name && other.protocol === old.protocol);
  return ofProtocol.find((old) => old.port === port.port && !isTaken(old));
}

/** A changed Node with the old values that its manifest leaves out. */
export function fillNode(next: ReadNode, old: ReadNode): ReadNode {
  return {
    ...next,
    address: { ...old.address, ...next.address },
    addresses: [...new Set([...next.addresses, ...old.addresses])],
    podCIDR: { ...old.podCIDR, ...next.podCIDR },
    cores: next.cores ?? old.cores,
  };
}
