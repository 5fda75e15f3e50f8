import type { Outcome } from '../rollout/outcome.ts';
import type { Change } from './transaction.ts';

/**
 * The ending of a change that waits because it takes the last endpoint of a Service: what may go in before it is in.
 * @param earlyEndpoints how the rest went in; undefined: there was none
 */
export function waiting(earlyEndpoints: Outcome | undefined, { from }: Change, waitsMs: number): Outcome {
  if (!earlyEndpoints) return { kind: 'same', generation: from, waitsMs };
  return earlyEndpoints.kind === 'confirmed' || earlyEndpoints.kind === 'same'
    ? { ...earlyEndpoints, waitsMs }
    : earlyEndpoints;
}
