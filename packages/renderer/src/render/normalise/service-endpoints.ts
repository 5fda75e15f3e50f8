import type { Problem } from '@sluice/bundle';
import type { Service, ServicePort } from '../model.ts';
import type { ReadService } from '../read/service.ts';

/**
 * Endpoints at the ClusterIP of a Service: by them one Service would take what is meant for another, past its policies, and nodes refuse
 * the whole bundle. External IPs and addresses of load balancers may be those of nodes, where pods with the address of their node are.
 * @param services each with what was read of it
 * @returns an error for each Service and address
 */
export function findServiceEndpoints(services: readonly (readonly [ReadService, Service])[]): readonly Problem[] {
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
    hint: 'Give the endpoints of the Service the addresses of its pods',
  };
}
