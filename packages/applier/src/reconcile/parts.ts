import type { LastEndpointDelay } from '../endpoints/last-endpoint-delay.ts';
import type { Ports } from '../ports/ports.ts';
import type { Changes } from './changes.ts';
import type { EarlyEndpoints } from './early-endpoints.ts';
import type { EndpointBounds } from './endpoint-bounds.ts';

/** What a change is made with. */
export interface ReconcileParts {
  readonly ports: Ports;
  readonly changes: Changes;
  readonly early: EarlyEndpoints;
  readonly lastEndpointDelay: LastEndpointDelay;
  readonly bounds: EndpointBounds;
  /** At most so many are tried without an operator. */
  readonly releasesPerHour: number;
}
