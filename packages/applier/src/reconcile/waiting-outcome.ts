import type { Outcome } from '../ports/outcome.ts';
import type { PlannedChange } from '../transaction/planned-change.ts';

/**
 * The outcome of a change that waits for the last-endpoint delay.
 * @param earlyEndpoints the outcome of the part that went in early; undefined: there was none
 */
export function waitingOutcome(earlyEndpoints: Outcome | undefined, { from }: PlannedChange, waitsMs: number): Outcome {
  if (!earlyEndpoints) return { kind: 'same', generation: from, waitsMs };
  return earlyEndpoints.kind === 'confirmed' || earlyEndpoints.kind === 'same'
    ? { ...earlyEndpoints, waitsMs }
    : earlyEndpoints;
}
