import { familyOfAddress } from '@sluice/netfilter';
import { stringify } from 'yaml';
import { portKey, serviceName } from '../render/allocate/request.ts';
import type { Allocation } from '../render/allocate/allocation.ts';
import { type JsonObject, type KubeObject, listOf, mapOf, textOf } from '../render/model/kube.ts';
import type { Protocol } from '../render/model/model.ts';

/**
 * Prints Services with their allocated addresses and ports filled in, so that an API server adopts them.
 * Fields that a manifest sets are kept; `status` belongs to the cluster and is left out.
 * @param services objects; those of other kinds, and Services without an allocation, are ignored
 * @returns YAML documents in the order of `services`, quoted so that YAML 1.1 and 1.2 read them the same way
 */
export function allocationsAsManifests(services: readonly KubeObject[], allocations: Iterable<Allocation>): string {
  const documents = allocatedServices(services, allocations);
  return documents.map((value) => `---\n${stringify(value, style)}`).join('');
}

/** Like `allocationsAsManifests`, as values. */
export function allocatedServices(
  services: readonly KubeObject[],
  allocations: Iterable<Allocation>,
): readonly JsonObject[] {
  const byName = new Map([...allocations].map((allocation) => [serviceName(allocation), allocation]));
  return services.flatMap((service) => {
    const allocation = service.kind === 'Service' ? byName.get(nameOf(service.value)) : undefined;
    return allocation ? [filledIn(service, allocation)] : [];
  });
}

/** `compat` quotes strings that a YAML 1.1 reader such as kubectl would misread: `yes`, `012`, `1:30`. */
const style = { compat: 'yaml-1.1', lineWidth: 0, aliasDuplicateObjects: false } as const;

function nameOf(service: JsonObject): string {
  const metadata = mapOf(service['metadata']);
  return serviceName({ namespace: textOf(metadata['namespace']) || 'default', name: textOf(metadata['name']) });
}

function filledIn(service: KubeObject, allocation: Allocation): JsonObject {
  const spec = mapOf(service.value['spec']);
  const { status: _status, ...rest } = service.value;
  const head = { apiVersion: service.apiVersion, kind: service.kind };
  if (spec['clusterIP'] === 'None' || spec['type'] === 'ExternalName') return { ...head, ...rest };
  const clusterIPs = addressesOf(spec, allocation);
  // A file may have ports that the Service no longer needs, and an API server refuses a node port for type ClusterIP.
  const takesNodePorts = spec['type'] === 'NodePort' || spec['type'] === 'LoadBalancer';
  const ports = listOf(spec['ports']).map((port) => (takesNodePorts ? withNodePort(mapOf(port), allocation) : port));
  const takesHealthPort = spec['type'] === 'LoadBalancer' && spec['externalTrafficPolicy'] === 'Local';
  const health = takesHealthPort ? allocation.healthCheckNodePort : undefined;
  return {
    ...head,
    ...rest,
    spec: {
      ...spec,
      ...(clusterIPs.length > 0 && { clusterIP: clusterIPs[0] as string, clusterIPs }),
      ...(ports.length > 0 && { ports }),
      ...(health !== undefined && !spec['healthCheckNodePort'] && { healthCheckNodePort: health }),
    },
  };
}

/** The addresses of the manifest, then allocated ones of the other families, in the order of `ipFamilies`. */
function addressesOf(spec: JsonObject, allocation: Allocation): readonly string[] {
  const own = [...new Set([spec['clusterIP'], ...listOf(spec['clusterIPs'])].map(textOf))].filter((ip) => ip !== '');
  const families = new Set(own.map(familyOfAddress));
  const order = listOf(spec['ipFamilies']).map((family) => textOf(family).toLowerCase());
  const rank = (ip: string): number => [...order, familyOfAddress(ip)].indexOf(familyOfAddress(ip));
  const given = allocation.clusterIPs
    .filter((ip) => !families.has(familyOfAddress(ip)))
    .toSorted((a, b) => rank(a) - rank(b));
  const isDual = order.length > 1 || textOf(spec['ipFamilyPolicy']).endsWith('DualStack');
  return [...own, ...given].slice(0, isDual ? 2 : Math.max(1, own.length));
}

function withNodePort(port: JsonObject, allocation: Allocation): JsonObject {
  const protocol = (textOf(port['protocol']) || 'TCP') as Protocol;
  const nodePort = allocation.nodePorts[portKey({ name: textOf(port['name']), protocol })];
  return nodePort === undefined || port['nodePort'] ? port : { ...port, nodePort };
}
