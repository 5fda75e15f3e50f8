import type { EndpointTreatment, NodeProgram } from './planes/plane.ts';
import { choosingPlaneOf } from './planes/planes.ts';

/**
 * The addresses of endpoints that all programs of a node treat as any other pod, but for connections to themselves. A program that does
 * not name an address treats it as any other pod, too.
 * @param programs of one mode
 * @returns none in mode ipvs and of observed nodes: there every endpoint has to be looked at
 */
export function plainEndpoints(programs: readonly NodeProgram[]): ReadonlySet<string> {
  const found = programs.map(endpointsIn);
  const all = (kind: keyof EndpointTreatment): ReadonlySet<string> => new Set(found.flatMap((one) => [...one[kind]]));
  const [masked, unmasked, special] = [all('masked'), all('unmasked'), all('special')];
  const isOne = (address: string): boolean => masked.has(address) !== unmasked.has(address) && !special.has(address);
  return new Set([...masked, ...unmasked].filter(isOne));
}

function endpointsIn(program: NodeProgram): EndpointTreatment {
  const none = new Set<string>();
  return program.live ? { masked: none, unmasked: none, special: none } : choosingPlaneOf(program).endpoints(program);
}
