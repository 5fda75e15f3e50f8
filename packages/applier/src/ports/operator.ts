import type { ProbeResult } from './probes.ts';

/** A decision of the operator during probation: `sluiced confirm`, `cancel`, `extend`. */
export type Decision =
  | { readonly kind: 'confirm' }
  | { readonly kind: 'cancel' }
  | { readonly kind: 'extend'; readonly seconds: number };

/** How far a release on probation is. Times are RFC 3339. */
export interface ProbationProgress {
  readonly since: string;
  /** Its earliest good end: then probes have passed for long enough. */
  readonly ends: string;
  /** Until when an operator must confirm it; null: it needs no operator. */
  readonly confirmBy: string | null;
  /** When the kernel returns to the old rules unless this process renews the switch; null: there is no switch. */
  readonly deadman: string | null;
  /** The last answer of each probe; none before the first round. */
  readonly probes: readonly ReportedProbe[];
  /** Networks whose packets meet the new rules; none: all packets do. */
  readonly sources: readonly string[];
  /** Services that were rolled back alone. */
  readonly without: readonly string[];
}

/** The last answer of a probe. */
export interface ReportedProbe extends ProbeResult {
  /** How many of its last answers were bad, and how many bad ones roll the release back. */
  readonly bad: number;
  readonly allowed: number;
  /** Whether it counts: one that failed before the release does not. */
  readonly counts: boolean;
}

export interface Operator {
  /** The next decision that was not returned yet. */
  ask(): Promise<Decision | undefined>;
  /** Drops all decisions so far: a new probation begins, which they cannot be about. */
  forget(): void;
  /** Lets the operator see how far a probation is, until undefined is given. */
  shows(progress: (() => ProbationProgress) | undefined): void;
}
