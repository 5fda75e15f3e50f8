import type { Problem } from '@sluice/netfilter';
import type { ReadService } from '../read/read-service.ts';
import type { ReadSlice } from '../read/slice.ts';

interface Readable {
  readonly services: ReadonlyMap<string, ReadService>;
  /** Services with errors: their slices are not orphaned. */
  readonly unread: readonly { readonly services: ReadonlySet<string> }[];
}

/**
 * Slices whose Service is not in the input: kube-proxy makes no rules for them. Endpoints without addresses are not reported: they
 * often serve for leader election.
 * @returns a warning for each
 */
export function orphanedSlices(slices: readonly ReadSlice[], { services, unread }: Readable): Problem[] {
  const isThere = (key: string): boolean => services.has(key) || unread.some((layer) => layer.services.has(key));
  return slices
    .filter((slice) => !isThere(slice.service) && slice.foreign === undefined)
    .filter((slice) => slice.kind === 'EndpointSlice' || slice.parts.length > 0)
    .map((slice) => ({
      code: 'SLICE_ORPHANED',
      level: 'warning',
      at: slice.object.origin.place([]),
      object: `${slice.kind} ${slice.key}`,
      message: `Cannot use these endpoints: there is no Service ${slice.service}`,
      hint: 'Add the Service to the input, or remove the endpoints',
    }));
}
