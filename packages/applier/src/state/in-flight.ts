import type { FlowDifference, Generation } from '../ports/journal.ts';

/** What this process knows of the open transaction. */
export interface InFlight {
  /** The generation that it leads to, and its flows. */
  readonly next?: Generation;
  readonly flows?: FlowDifference;
  readonly offered?: { readonly from: Generation; readonly to: Generation; readonly flows: FlowDifference };
  /** This process is counted in its recoveries. */
  readonly isCounted?: true;
}
