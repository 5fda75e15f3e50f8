import { compareText, type Family, parseCidr } from '@sluice/netfilter';
import type { Allocation } from '../allocate/allocation.ts';
import { portKey } from '../allocate/request.ts';
import type { PortOfFamily, Service, ServicePort } from '../model/model.ts';
import { familyOf } from '../read/addresses.ts';
import type { ReadService } from '../read/read-service.ts';
import type { ReadPort } from '../read/service-ports.ts';
import type { ReadSlice } from '../read/slice.ts';
import { endpointsOf, portsOfSlices, type SlicePorts } from './backing.ts';

/** Services of the model with their parsed objects. */
export type MadeServices = readonly (readonly [ReadService, Service])[];

/**
 * One Service of the model.
 * @param numbers its ClusterIPs (at least one), node ports and health-check node port
 * @param slices by name
 */
export function makeService(service: ReadService, numbers: Allocation, slices: readonly ReadSlice[]): Service {
  const { namespace, name, type } = service;
  if (type === 'ExternalName') throw new TypeError(`Cannot make rules for ${service.key}: it is an ExternalName`);
  const frontends = numbers.clusterIPs.map((clusterIP) => [familyOf(clusterIP), frontOf(service, clusterIP)] as const);
  const slicePorts = portsOfSlices(slices);
  const ports = service.ports.map((port) => makePort(service, port, numbers, frontends, slicePorts));
  ports.sort((a, b) => compareText(a.key, b.key) || compareText(a.protocol, b.protocol));
  const { scheduler, maglevSize, weights } = service;
  return {
    namespace,
    name,
    type,
    ...(scheduler !== undefined && { scheduler }),
    ...(maglevSize !== undefined && { maglevSize }),
    ...(weights.length > 0 && { weights }),
    ports,
  };
}

/** The addresses and source ranges that all ports of a Service share in one family. */
type Front = Omit<PortOfFamily, 'endpoints'>;

function frontOf(service: ReadService, clusterIP: string): Front {
  const family = familyOf(clusterIP);
  const ofFamily = (texts: readonly string[]): readonly string[] => [
    ...new Set(texts.filter((text) => familyOf(text) === family)),
  ];
  return {
    clusterIP,
    externalIPs: ofFamily(service.externalIPs),
    loadBalancerIPs: ofFamily(service.ingress.map((entry) => entry.address)),
    loadBalancerSourceRanges: restricting(ofFamily(service.sourceRanges)),
  };
}

/** A range of the whole family counts as no range: `newBaseServiceInfo` in kube-proxy's `pkg/proxy/serviceport.go`. */
function restricting(ranges: readonly string[]): readonly string[] {
  return ranges.some((range) => parseCidr(range)?.prefix === 0) ? [] : ranges;
}

function makePort(
  service: ReadService,
  port: ReadPort,
  numbers: Allocation,
  frontends: readonly (readonly [Family, Front])[],
  slicePorts: SlicePorts,
): ServicePort {
  const families: { [F in Family]?: PortOfFamily } = {};
  for (const [family, front] of frontends)
    families[family] = { ...front, endpoints: endpointsOf(slicePorts, port, family) };
  const { affinitySeconds } = service;
  return {
    key: port.name === '' ? service.key : `${service.key}:${port.name}`,
    name: port.name,
    protocol: port.protocol,
    port: port.port,
    nodePort: numbers.nodePorts[portKey(port)] ?? 0,
    healthCheckNodePort: numbers.healthCheckNodePort ?? 0,
    internalTrafficPolicy: service.internalTrafficPolicy,
    externalTrafficPolicy: service.externalTrafficPolicy,
    ...(affinitySeconds !== undefined && { affinitySeconds }),
    families,
  };
}
