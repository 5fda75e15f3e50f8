import type { IpvsTimeouts } from '@sluice/netfilter';
import type { Outcome } from '../../ports/outcome.ts';
import type { ObservedIpvs } from '../../ports/ipvs/values.ts';
import type { FlowDifference, Generation, VersionedState } from '../../ports/journal.ts';
import type { OwnedNames, NodeState, Observed } from '../../ports/node-state.ts';
import type { Virtual } from '../plan/virtual.ts';
import type { ChangeClass } from '../endpoints/change-kind.ts';
import type { TransactionPlan } from '../plan/transaction-plan.ts';

/** Everything that one transaction will do, decided before its first step. */
export interface PlannedChange extends ChangeClass {
  readonly bundle: VersionedState;
  /** The active generation, which a rollback returns to. */
  readonly from: Generation;
  /** Our rules in the kernel before the change. */
  readonly now: NodeState;
  readonly plan: TransactionPlan;
  /** The names of our chains, sets and servers before the change. */
  readonly owned: OwnedNames;
  readonly flows: FlowDifference;
  /** The present values of the sysctls that the change sets and `from` does not. */
  readonly sysctls: NodeState['sysctls'];
  /** The present time-outs of IPVS, if the change sets other ones. */
  readonly timeouts?: IpvsTimeouts;
  /** The tables as read for this change; left out when they were already known. */
  readonly observed?: Observed;
  /** The node has served no Service until now, by any program: a packet loses nothing by meeting the new rules early. */
  readonly isFirst?: true;
  /** The plan of mode ipvs, and the observed state that it starts from. */
  readonly virtual?: Virtual;
}

/** The outcome of a transaction, and the state of the kernel as far as it is known without reading it again. */
export interface TransactionResult {
  readonly outcome: Outcome;
  readonly kernelState?: NodeState;
  /** The observed state of mode ipvs, if it was read after the change. */
  readonly ipvs?: ObservedIpvs;
  /** After a rollback: its reason. */
  readonly failed?: RollbackReason['kind'];
  /** The kernel refused a change that was planned from a remembered state, so that state may be out of date. */
  readonly stale?: true;
}

/** Why a change must be rolled back. */
export interface RollbackReason {
  /**
   * The bundle's fault: the kernel refused it, a probe failed on rules that nothing else changed, the operator cancelled it. Not its fault:
   * the kernel does not hold what it took (`differs`); a tool, the disk or another program stood in the way (`surroundings`); the process
   * could not continue, or was asked to end (`asked`).
   */
  readonly kind: 'kernel' | 'health' | 'operator' | 'differs' | 'surroundings' | 'process' | 'asked';
  readonly because: string;
}
