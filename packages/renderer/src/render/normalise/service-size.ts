import { type Problem, refusal } from '@sluice/netfilter';
import { serviceLimits } from '../model/limits.ts';
import type { ReadService } from '../read/read-service.ts';
import type { ReadSlice } from '../read/slice.ts';

/**
 * Why a Service is too large together with its endpoints. Small objects are enough for that, as one endpoint counts at each port: 2,000
 * ports and 1,000 endpoints took 3.4 GB.
 * @param slices all of the Service
 * @returns `INPUT_TOO_LARGE`, or undefined within the limits
 */
export function serviceTooLarge({ key, object }: ReadService, slices: readonly ReadSlice[]): Problem | undefined {
  if (!isTooMany(slices)) return undefined;
  return refusal(
    'INPUT_TOO_LARGE',
    `Cannot make rules for Service ${key}: it has more than ${serviceLimits.portEndpointsMax} endpoints, counted at each port`,
    'Split the Service, or use fewer ports or endpoints',
    { at: object.origin.place(['spec', 'ports']), object: `Service ${key}` },
  );
}

/** Whether the endpoints of a Service, counted at each port, are more than it may have. */
export function isTooMany(slices: readonly ReadSlice[]): boolean {
  const counts = slices.flatMap(({ parts }) => parts.map(({ ports, endpoints }) => ports.length * endpoints.length));
  return counts.reduce((sum, count) => sum + count, 0) > serviceLimits.portEndpointsMax;
}
