import type { KubeObject } from '../kube.ts';
import { roughKey } from '../read/names.ts';
import type { Allocation } from './allocation.ts';
import { serviceName } from './request.ts';

/**
 * The allocations of Services that none of these objects is, in their order. They hold their numbers all the same: a Service that was only
 * left out of the input has them again when it is back.
 * @param objects also Services that cannot be read count, by their names
 */
export function unownedAllocations(
  allocations: readonly Allocation[],
  objects: readonly KubeObject[],
): readonly Allocation[] {
  const services = new Set(objects.filter(({ kind }) => kind === 'Service').map(roughKey));
  return allocations.filter((allocation) => !services.has(serviceName(allocation)));
}
