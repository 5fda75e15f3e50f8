import { addAll, compareText, type Family, type Problem } from '@sluice/netfilter';
import { allocate } from '../allocate/allocate.ts';
import type { Allocation } from '../allocate/allocation.ts';
import { type AllocationRequest, portKey, serviceName, wantedFamilies } from '../allocate/request.ts';
import type { SluiceConfig } from '../model/config.ts';
import { hasAddress } from '../layer/fill.ts';
import type { LayeredObjects } from '../layer/layer.ts';
import { Memo } from '../model/memo.ts';
import { familyOf, familyWord } from '../read/addresses.ts';
import { proxyNameLabel } from '../read/names.ts';
import type { ReadService } from '../read/read-service.ts';

/** The numbers of Services with addresses: ClusterIPs, node ports, health-check node port. */
interface Numbers {
  /** By `namespace/name`. */
  readonly given: ReadonlyMap<string, Allocation>;
  /** Allocation files to write. */
  readonly created: readonly Allocation[];
}

interface NumbersInput {
  readonly config: SluiceConfig;
  readonly allocations: readonly Allocation[];
  /** Allocate missing numbers. */
  readonly allocate: boolean;
}

/** Whether any version of kube-proxy makes rules for a Service: not headless, not ExternalName, not of another proxy. */
export function hasRules(service: ReadService): boolean {
  return hasAddress(service) && service.foreign !== proxyNameLabel;
}

/**
 * The numbers from manifests and the base; with `allocate` also those of allocation files and new ones.
 * @param problems receives those of the allocation
 */
export function assignNumbers(
  layered: LayeredObjects,
  { config, allocations, allocate: isOn }: NumbersInput,
  problems: Problem[],
  memo = new Memo(),
): Numbers {
  const services = [...layered.services.values()].filter(hasRules);
  if (!isOn) return { given: new Map(services.map((service) => [service.key, numbersOf(service, memo)])), created: [] };
  const files = new Map(allocations.map((allocation) => [serviceName(allocation), allocation]));
  const requests = services.map((service) =>
    requestOf(service, familiesOf(service, config, files.get(service.key), problems)),
  );
  const allocated = allocate(requests, numbersInUse(layered), config, allocations);
  addAll(problems, allocated.problems);
  return { given: allocated.given, created: allocated.created };
}

/** The numbers that a Service has itself. */
export function numbersOf(service: ReadService, memo: Memo): Allocation {
  return memo.of('numbers', service, [], () => ownNumbers(service));
}

function ownNumbers(service: ReadService): Allocation {
  const nodePorts: Record<string, number> = {};
  for (const port of service.ports) if (port.nodePort > 0) nodePorts[portKey(port)] = port.nodePort;
  const { namespace, name, clusterIPs, healthCheckNodePort: health } = service;
  return { namespace, name, clusterIPs, nodePorts, ...(health > 0 && { healthCheckNodePort: health }) };
}

function requestOf(service: ReadService, families: readonly Family[]): AllocationRequest {
  const { namespace, name, clusterIPs, ports, healthCheckNodePort: health } = service;
  return {
    namespace,
    name,
    families,
    clusterIPs,
    ports,
    wantsNodePorts: wantsNodePorts(service),
    healthCheckNodePort: health > 0 ? health : wantsHealthPort(service) ? 'wanted' : 'none',
    origin: service.object.origin,
  };
}

/**
 * The families in which a Service gets addresses. A family without a service CIDR is left out with a warning, unless the Service has an
 * address: manifests for other clusters still render, and the missing address is reported.
 */
function familiesOf(
  service: ReadService,
  config: SluiceConfig,
  file: Allocation | undefined,
  problems: Problem[],
): readonly Family[] {
  const { ipFamilyPolicy, ipFamilies, clusterIPs } = service;
  const has = [...clusterIPs, ...(file?.clusterIPs ?? [])].map(familyOf);
  const settings = { ...(ipFamilyPolicy && { ipFamilyPolicy }), ipFamilies, ofClusterIPs: clusterIPs.map(familyOf) };
  const wanted = wantedFamilies(settings, config);
  const both: readonly Family[] = config.primaryFamily === 'ipv4' ? ['ipv4', 'ipv6'] : ['ipv6', 'ipv4'];
  const families = wanted.length > 0 ? wanted : [...new Set([...clusterIPs.map(familyOf), ...ipFamilies, ...both])];
  return families.filter((family) => {
    if (config.serviceCIDRs[family] !== undefined || has.includes(family)) return true;
    problems.push({
      code: 'SERVICE_WAITS',
      level: 'warning',
      at: service.object.origin.place(['spec', ipFamilies.length > 0 ? 'ipFamilies' : 'ipFamilyPolicy']),
      object: `Service ${service.key}`,
      message: `Cannot allocate an ${familyWord[family]} address: there is no ${familyWord[family]} service CIDR`,
      hint: `Add the cluster's ${familyWord[family]} range to serviceCIDRs in sluice.yaml, or set the address in the manifest`,
    });
    return false;
  });
}

/** Whether a Service gets node ports: types NodePort, and LoadBalancer unless `allocateLoadBalancerNodePorts` is false. */
function wantsNodePorts(service: ReadService): boolean {
  return service.type === 'NodePort' || (service.type === 'LoadBalancer' && service.allocateNodePorts);
}

/** Whether a Service gets a health-check node port (`NeedsHealthCheck`). */
function wantsHealthPort(service: ReadService): boolean {
  return service.type === 'LoadBalancer' && service.externalTrafficPolicy === 'Local';
}

/** Addresses of nodes and load balancers, and numbers of Services without rules. */
function numbersInUse(layered: LayeredObjects): { addresses: ReadonlySet<string>; nodePorts: ReadonlySet<number> } {
  const addresses = new Set<string>();
  const nodePorts = new Set<number>();
  for (const service of layered.services.values()) {
    for (const address of service.externalIPs) addresses.add(address);
    for (const { address } of service.ingress) addresses.add(address);
    if (hasRules(service)) continue;
    for (const address of service.clusterIPs) addresses.add(address);
    for (const number of [service.healthCheckNodePort, ...service.ports.map((port) => port.nodePort)])
      if (number > 0) nodePorts.add(number);
  }
  for (const node of layered.nodes.values()) for (const address of Object.values(node.address)) addresses.add(address);
  return { addresses, nodePorts };
}

/** The missing numbers of a Service, such as `a ClusterIP` and `node ports (http)`. */
export function missingNumbers(service: ReadService, numbers: Allocation): readonly string[] {
  const missing: string[] = [];
  if (numbers.clusterIPs.length === 0) missing.push('a ClusterIP');
  else if (service.ipFamilyPolicy === 'RequireDualStack' && numbers.clusterIPs.length === 1)
    missing.push('a ClusterIP of the other family');
  if (wantsNodePorts(service)) {
    const ports = service.ports.filter((port) => numbers.nodePorts[portKey(port)] === undefined);
    const names = ports.map((port) => port.name || String(port.port)).toSorted(compareText);
    if (names.length > 0) missing.push(`node ports (${names.join(', ')})`);
  }
  if (wantsHealthPort(service) && numbers.healthCheckNodePort === undefined) missing.push('a health-check node port');
  return missing;
}
