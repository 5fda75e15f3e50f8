import type { Severity } from './severity.ts';

/** One thing that a change does, and everything to which it does it. */
export interface Effect {
  readonly severity: Severity;
  /** The predicate of each subject, without a full stop: `has no endpoint left: connections are rejected`. */
  readonly sentence: string;
  /** In byte order of name. */
  readonly subjects: readonly EffectSubject[];
}

export interface EffectSubject {
  /** `shop/web`, `profile default`, `node-1`, the path of a file. */
  readonly name: string;
  /** Whether the name is that of a Service. */
  readonly isService: boolean;
  /** The ports, addresses and numbers, in their order; may be empty. */
  readonly details: readonly string[];
}

/** One subject of an effect, before equal sentences are merged. */
export interface SingleEffect {
  readonly severity: Severity;
  readonly sentence: string;
  readonly name: string;
  readonly isService: boolean;
  readonly detail: string;
}
