import { embeddedIn, type Problem } from '@sluice/netfilter';
import type { ServicePort } from '../model/model.ts';
import type { ReadService } from '../read/read-service.ts';
import type { MadeServices } from './service.ts';

/**
 * Endpoints at the ClusterIP of a Service, or at an IPv6 address that a translator leads there: one Service would forward to another one around its policies, and nodes refuse the whole
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
      const own = owners.get(address);
      if (own !== undefined) return [problem(read, address, `it is the ClusterIP of Service ${own}`)];
      return embeddedIn(address).flatMap(({ embedded: { text }, by }) => {
        const owner = owners.get(text);
        return owner === undefined
          ? []
          : problem(read, address, `it leads to ${text} (${by}), the ClusterIP of Service ${owner}`);
      });
    }),
  );
}

const addressesOf = ({ families }: ServicePort): readonly string[] =>
  Object.values(families).flatMap(({ endpoints }) => endpoints.map(({ address }) => address));

function problem({ key, object }: ReadService, address: string, why: string): Problem {
  return {
    code: 'ADDRESS_FORBIDDEN',
    level: 'error',
    at: object.origin.place([]),
    object: `Service ${key}`,
    message: `Cannot use ${address} as an endpoint: ${why}`,
    hint: 'Use the addresses of pods as endpoints',
  };
}
