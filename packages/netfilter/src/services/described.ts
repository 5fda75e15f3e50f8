import type { TransportProtocol } from '../rules/rule.ts';
import type { ServiceFrontend } from './of-rule.ts';

/** The traffic policy of a Service: all endpoints, or those of the node itself. */
export type TrafficPolicy = 'Cluster' | 'Local';

/**
 * A frontend with what people ask about it, as far as the state shows that: the rest is left out. Of the lines of several nodes together
 * (`onAllNodes`) it has what any of these nodes does.
 */
export interface DescribedFrontend extends Omit<ServiceFrontend, 'protocol'> {
  readonly protocol: TransportProtocol;
  /** `shop/web:http`, where something names Services. */
  readonly service?: string;
  /** `health-check`: the node port on which nodes say whether they have endpoints. */
  readonly kind?: 'cluster' | 'external' | 'load-balancer' | 'health-check';
  /** What serves it; an endpoint is repeated where its weights differ. */
  readonly endpoints: readonly DescribedEndpoint[];
  readonly internalPolicy?: TrafficPolicy;
  readonly externalPolicy?: TrafficPolicy;
  /** Session affinity: how long clients are remembered; empty without. */
  readonly affinitySeconds: readonly number[];
  /** Mode ipvs: the scheduler with its flags, `mh mh-port`. Mode nftables: `random`, `maglev 1009`. */
  readonly scheduler?: string;
  /** The networks that may use it, with their prefixes and without the frontend itself; empty: all may. */
  readonly ranges?: readonly string[];
}

/** An endpoint of a `DescribedFrontend`: `10.244.1.5:8080`. */
interface DescribedEndpoint {
  readonly text: string;
  readonly weight: number;
}

/** The description of a health-check node port. */
export const healthCheck = (port: number | string): DescribedFrontend => ({
  protocol: 'tcp',
  address: undefined,
  port: Number(port),
  kind: 'health-check',
  endpoints: [],
  affinitySeconds: [],
});
