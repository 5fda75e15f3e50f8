import { compareText } from '@sluice/netfilter';
import { limits } from '../limits.ts';
import type { EndpointBalance } from './balance.ts';
import type { ServiceEndpointCount } from './connection-totals.ts';

/** New connections to an endpoint of a Service port. */
export interface EndpointConnections {
  /** `10.244.1.5:8080` */
  readonly endpoint: string;
  readonly connections: number;
  /** Those that came between the last two readings. */
  readonly recent: number;
  /** Its part of the connections of some minutes, and the part that it should have had by chance; null where the latter is not known. */
  readonly share: number | null;
  readonly expectedShare: number | null;
}

/** New connections to a Service port. */
export interface ServiceConnections {
  /** `shop/web:http`; in mode nftables `shop/web`, with all its ports. */
  readonly service: string;
  readonly connections: number;
  readonly recent: number;
  /** Those with most connections first. */
  readonly endpoints: readonly EndpointConnections[];
}

/**
 * The Services with most connections, as many as are told.
 * @param balanceOf what the endpoints of a Service got and should have got
 */
export function busiestServices(
  counts: readonly ServiceEndpointCount[],
  balanceOf: (service: string) => ReadonlyMap<string, EndpointBalance>,
): readonly ServiceConnections[] {
  const services = [...Map.groupBy(counts, ({ service }) => service)].map(([service, own]) => ({
    service,
    connections: own.reduce((sum, { connections }) => sum + connections, 0),
    recent: own.reduce((sum, { recent }) => sum + recent, 0),
    own,
  }));
  return services
    .toSorted((a, b) => b.connections - a.connections || compareText(a.service, b.service))
    .slice(0, limits.countedFrontendsTold)
    .map(({ service, connections, recent, own }) => ({
      service,
      connections,
      recent,
      endpoints: busiestEndpoints(own, balanceOf(service)),
    }));
}

/** Also those without connections that should have some. */
function busiestEndpoints(
  own: readonly ServiceEndpointCount[],
  balances: ReadonlyMap<string, EndpointBalance>,
): readonly EndpointConnections[] {
  const all = [...balances.values()].reduce((sum, { expected }) => sum + expected, 0);
  const part = (connections: number | undefined): number | null =>
    connections === undefined || all === 0 ? null : Math.round((10_000 * connections) / all) / 10_000;
  const counted = new Map(own.map((one) => [one.endpoint, one]));
  return [...new Set([...counted.keys(), ...balances.keys()])]
    .map((endpoint) => ({
      endpoint,
      connections: counted.get(endpoint)?.connections ?? 0,
      recent: counted.get(endpoint)?.recent ?? 0,
      share: part(balances.get(endpoint)?.connections),
      expectedShare: part(balances.get(endpoint)?.expected),
    }))
    .toSorted((a, b) => b.connections - a.connections || compareText(a.endpoint, b.endpoint))
    .slice(0, limits.countedEndpointsTold);
}
