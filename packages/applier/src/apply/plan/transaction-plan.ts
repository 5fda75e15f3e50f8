import type { OtherPlanes } from './other-planes.ts';
import { nothingToDo, type Plan, planInTwo, type PlanOptions } from './plan.ts';
import type { Flip } from '../../ports/journal.ts';
import type { Step } from '../../ports/kernel.ts';
import type { NodeState } from '../../ports/node-state.ts';

/** All steps of a transaction by phase, decided before the first of them; transaction.ts says what happens between the phases. */
export interface TransactionPlan {
  readonly flip: Flip;
  /** Harmless: chains that no packet meets yet, and rules that let no more through. */
  readonly stage: Plan;
  /** From the first of these steps on packets meet the new program. Only sysctls when the switch does that. */
  readonly cutOver: Plan;
  /** After the commit record: makes the new program the one that the kernel falls back to. */
  readonly defaults: Plan;
  /** Removes what only the old program needs. */
  readonly finish: Plan;
  /** The state of the kernel after each phase; `desired` after `finish`. */
  readonly afterStage: NodeState;
  readonly afterCutOver: NodeState;
  readonly afterDefaults: NodeState;
  readonly desired: NodeState;
}

/** All steps of a transaction, in order. */
export function stepsOf({ stage, cutOver, defaults, finish }: TransactionPlan): readonly Step[] {
  return [stage, cutOver, defaults, finish].flatMap(({ steps }) => steps);
}

/**
 * In place: one plan that also removes what the desired state lacks; all steps lie before the commit record, but for those that remove
 * virtual servers, with what belongs to them: connections that IPVS forwards go on while the release is on probation.
 */
export function planInPlace(
  now: NodeState,
  desired: NodeState,
  options: PlanOptions,
  otherPlanes: OtherPlanes = {},
): TransactionPlan {
  const { cutOver, between, leaving } = planInTwo(now, desired, options, otherPlanes);
  return { ...inPlaceStates(now, desired), cutOver, afterCutOver: between, afterDefaults: between, finish: leaving };
}

export const inPlaceStates = (now: NodeState, desired: NodeState): Omit<TransactionPlan, 'cutOver'> => ({
  flip: 'ordered',
  stage: nothingToDo,
  defaults: nothingToDo,
  finish: nothingToDo,
  afterStage: now,
  afterCutOver: desired,
  afterDefaults: desired,
  desired,
});

/** A plan with more steps behind its own. */
export const withSteps = ({ steps, touched }: Plan, more: readonly Step[]): Plan => ({
  steps: [...steps, ...more],
  touched,
});
