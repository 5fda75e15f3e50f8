/** A decision of the operator during probation: `sluiced confirm`, `cancel`, `extend`. */
export type Decision =
  | { readonly kind: 'confirm' }
  | { readonly kind: 'cancel' }
  | { readonly kind: 'extend'; readonly seconds: number };

export interface Operator {
  /** The next decision that was not returned yet. */
  ask(): Promise<Decision | undefined>;
  /** Drops all decisions so far: a new probation begins, which they cannot be about. */
  forget(): void;
}
