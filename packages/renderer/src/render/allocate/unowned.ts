import type { KubeObject } from '../model/kube.ts';
import { roughKey } from '../read/names.ts';
import type { Allocation } from './allocation.ts';
import { serviceName } from './request.ts';

/**
 * The allocations whose Services are not among these objects. Their numbers stay reserved, so that a Service gets them again when it
 * returns to the input.
 * @param objects invalid Services count too, by their names
 */
export function unownedAllocations(
  allocations: readonly Allocation[],
  objects: readonly KubeObject[],
): readonly Allocation[] {
  const services = new Set(objects.filter(({ kind }) => kind === 'Service').map(roughKey));
  return allocations.filter((allocation) => !services.has(serviceName(allocation)));
}
