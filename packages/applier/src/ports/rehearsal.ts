import type { Family, TableChange, TableName } from '@sluice/netfilter';
import type { NodeState } from './node-state.ts';

/** A changed table. */
export interface Touched {
  readonly family: Family;
  readonly table: TableName;
  readonly change: TableChange;
}

/** Loads rules where no packet meets them. transaction/known-forms.ts implements it. */
export interface Rehearsal {
  /**
   * Makes sure that the kernel takes every rule that a change writes.
   * @param active the state in the kernel, whose rules it has accepted
   * @throws KernelError if it does not take them
   * @throws RehearsalError if they could not be loaded for another reason
   */
  ensure(desired: NodeState, touched: readonly Touched[], active: NodeState): Promise<void>;
  /** Whether `ensure` has nothing to load. */
  isKnown(desired: NodeState, touched: readonly Touched[], active: NodeState): boolean;
}
