import type { Problem } from '@sluice/netfilter';
import type { ServicePort } from '../model/model.ts';
import type { ReadService } from '../read/read-service.ts';
import type { MadeServices } from './service.ts';

/**
 * Endpoints at the ClusterIP of a Service: one Service would forward to another one around its policies, and nodes refuse the whole
 * bundle. External IPs and load-balancer addresses are permitted: they may be addresses of nodes, which host-network pods have.
 * @param services each with its parsed object
 * @returns an error for each Service and address
 */
export function findServiceEndpoints(services: MadeServices): readonly Problem[] {
  const owners = new Map<string, string>();
  for (const [read, { ports }] of services)
    for (const { families } of ports)
      for (const { clusterIP } of Object.values(families)) owners.set(clusterIP, read.key);
  return services.flatMap(([read, { ports }]) =>
    [...new Set(ports.flatMap(addressesOf))].flatMap((address) => {
      const owner = owners.get(address);
      return owner === undefined ? [] : [problem(read, address, owner)];
    }),
  );
}

const addressesOf = ({ families }: ServicePort): readonly string[] =>
  Object.values(families).flatMap(({ endpoints }) => endpoints.map(({ address }) => address));

function problem({ key, object }: ReadService, address: string, owner: string): Problem {
  return {
    code: 'ADDRESS_FORBIDDEN',
    level: 'error',
    at: object.origin.place([]),
    object: `Service ${key}`,
    message: `Cannot use ${address} as an endpoint: it is the ClusterIP of Service ${owner}`,
    hint: 'Use the addresses of pods as endpoints',
  };
}
