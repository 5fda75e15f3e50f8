import { compareText } from '@sluice/netfilter';
import { limits } from '../limits.ts';
import type { ServiceEndpointCount } from './connection-totals.ts';

/** New connections to an endpoint of a Service port. */
export interface EndpointConnections {
  /** `10.244.1.5:8080` */
  readonly endpoint: string;
  readonly connections: number;
  /** Those that came between the last two readings. */
  readonly recent: number;
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

/** The Services with most connections, as many as are told. */
export function busiestServices(counts: readonly ServiceEndpointCount[]): readonly ServiceConnections[] {
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
      endpoints: busiestEndpoints(own),
    }));
}

const busiestEndpoints = (own: readonly ServiceEndpointCount[]): readonly EndpointConnections[] =>
  own
    .map(({ endpoint, connections, recent }) => ({ endpoint, connections, recent }))
    .toSorted((a, b) => b.connections - a.connections || compareText(a.endpoint, b.endpoint))
    .slice(0, limits.countedEndpointsTold);
