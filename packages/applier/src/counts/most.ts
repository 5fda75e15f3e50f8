import { compareText } from '@sluice/netfilter';
import { limits } from '../limits.ts';
import type { ServiceEndpointCount } from './connection-totals.ts';

/** New connections to a Service port. */
export interface ServiceConnections {
  /** `shop/web:http` */
  readonly service: string;
  readonly connections: number;
  /** Those with most connections first, by `10.244.1.5:8080`. */
  readonly endpoints: readonly { readonly endpoint: string; readonly connections: number }[];
}

/** The Services with most connections, as many as are told. */
export function busiestServices(counts: readonly ServiceEndpointCount[]): readonly ServiceConnections[] {
  const services = [...Map.groupBy(counts, ({ service }) => service)].map(([service, own]) => ({
    service,
    connections: own.reduce((sum, { connections }) => sum + connections, 0),
    own,
  }));
  return services
    .toSorted((a, b) => b.connections - a.connections || compareText(a.service, b.service))
    .slice(0, limits.countedFrontendsTold)
    .map(({ service, connections, own }) => ({ service, connections, endpoints: busiestEndpoints(own) }));
}

const busiestEndpoints = (own: readonly ServiceEndpointCount[]): ServiceConnections['endpoints'] =>
  own
    .map(({ endpoint, connections }) => ({ endpoint, connections }))
    .toSorted((a, b) => b.connections - a.connections || compareText(a.endpoint, b.endpoint))
    .slice(0, limits.countedEndpointsTold);
