import { changeTable, isEmptyChange, type TableName } from '@sluice/netfilter';
import { ipvsSteps } from '../ipvs/plan.ts';
import { limits } from '../limits.ts';
import { planNftInPlace, planNftProbation, planNftRemoval } from '../nftables/plan.ts';
import type { Beside } from './beside.ts';
import { nothingToDo, type Plan, plan, type PlanOptions, sysctlSteps, tablePlan } from './plan.ts';
import type { Flip, ChangeKind } from '../ports/journal.ts';
import type { Step } from '../ports/kernel.ts';
import { familyNames, mapTables, type NodeState, tableOf, isTree } from '../ports/node-state.ts';
import { sideBySide, differInBaseChains, type Lead } from './side-by-side.ts';

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

/**
 * Plans the transaction from `now` to `desired`.
 *
 * - Release in layout `tree`: its chains beside the old ones, then the switch, then the defaults; nothing of the old program is removed
 *   before the commit record. Without a switch, filter calls both programs, then nat changes to the new one.
 * - Release in layout `flat`: filter allows what both programs need, nat changes, filter narrows; the old program is gone then.
 * - Endpoint update: all steps lie before the commit record. Mostly it changes nat alone, in one commit per family; with a first or last
 *   endpoint, filter calls both programs first and the new one alone afterwards.
 *
 * - Release in mode nftables: as in layout `tree`; if the table or the profile's sets change, all of it in one transaction.
 * - Change of the mode: the new data plane first, then the old one goes.
 *
 * Sets, virtual servers and addresses of mode ipvs have no switch: they change in the order of `plan`. If the desired state is in layout
 * `tree` they are removed last, after everything that led to them.
 * @param flip `switch` only if the kernel has one; ignored when no table changes
 * @param beside what is beside the tables now
 */
export function planTransaction(
  now: NodeState,
  desired: NodeState,
  { changeKind, flip }: { readonly changeKind: ChangeKind; readonly flip: Flip },
  options: PlanOptions,
  beside: Beside = {},
): TransactionPlan {
  if (changeKind === 'endpoints') {
    if (desired.nft) return planNftUpdate(now, desired, options, beside);
    return isTree(desired) ? planUpdate(now, desired, options) : planInPlace(now, desired, options, beside);
  }
  const isFlipped = flip === 'switch' && (desired.nft !== undefined || tablesDiffer(now, desired));
  return planProbation(now, desired, isFlipped ? flip : 'ordered', options, beside);
}

/** Plans a release with a given flip: also used again when both programs of a probation get newer endpoints. */
export function planProbation(
  now: NodeState,
  desired: NodeState,
  flip: Flip,
  options: PlanOptions,
  beside: Beside = {},
): TransactionPlan {
  const { virtual, nft } = beside;
  if (flip === 'switch' && now.nft && desired.nft) return planNftBySwitch(now, desired, options, beside);
  if (!isTree(desired)) return planInPlace(now, desired, options, beside);
  const planned = flip === 'switch' ? planBySwitch(now, desired, options) : planInOrder(now, desired, options);
  const [cutOver, finish] = [nft ? planNftRemoval(nft) : [], virtual ? ipvsSteps(virtual.plan) : []];
  return { ...planned, cutOver: withSteps(planned.cutOver, cutOver), finish: withSteps(planned.finish, finish) };
}

const withSteps = ({ steps, touched }: Plan, more: readonly Step[]): Plan => ({ steps: [...steps, ...more], touched });

/** A release in mode nftables: beside the active one, then the switch. */
function planNftBySwitch(now: NodeState, desired: NodeState, options: PlanOptions, { nft }: Beside): TransactionPlan {
  const { held } = nft ?? {};
  if (!nft || !held || !now.nft || !desired.nft) return planInPlace(now, desired, options, nft ? { nft } : {});
  const sysctls = sysctlSteps(now, desired);
  const planned = planNftProbation({ ...nft, held }, now.nft, desired.nft);
  const confirmed: NodeState = { ...desired, nft: now.nft };
  return {
    flip: 'switch',
    stage: { steps: [...sysctls.before, ...planned.stage], touched: [] },
    cutOver: { steps: sysctls.after, touched: [] },
    defaults: { steps: planned.defaults, touched: [] },
    finish: { steps: planned.finish, touched: [] },
    afterStage: confirmed,
    afterCutOver: confirmed,
    afterDefaults: desired,
    desired,
  };
}

/** In mode nftables packets meet the newer endpoints at once; what no verdict leads to any more is removed later. */
function planNftUpdate(now: NodeState, desired: NodeState, options: PlanOptions, { nft }: Beside): TransactionPlan {
  const { cutOver, ...planned } = planInPlace(now, desired, options);
  if (!nft || !desired.nft) return { ...planned, cutOver };
  const { first, late } = planNftInPlace(nft, desired.nft);
  return { ...planned, cutOver: withSteps(cutOver, first), finish: { steps: late, touched: [] } };
}

function tablesDiffer(now: NodeState, desired: NodeState): boolean {
  return natFirst.some((table) => tableDiffers(table, now, desired));
}

function tableDiffers(table: TableName, now: NodeState, desired: NodeState): boolean {
  return familyNames.some(
    (family) => !isEmptyChange(changeTable(tableOf(now, family, table), tableOf(desired, family, table))),
  );
}

/** All steps of a transaction, in order. */
export function stepsOf({ stage, cutOver, defaults, finish }: TransactionPlan): readonly Step[] {
  return [stage, cutOver, defaults, finish].flatMap(({ steps }) => steps);
}

/** In place: one plan that also removes what the desired state lacks. */
function planInPlace(now: NodeState, desired: NodeState, options: PlanOptions, beside?: Beside): TransactionPlan {
  return { ...inPlaceStates(now, desired), cutOver: plan(now, desired, options, beside) };
}

const inPlaceStates = (now: NodeState, desired: NodeState): Omit<TransactionPlan, 'cutOver'> => ({
  flip: 'ordered',
  stage: nothingToDo,
  defaults: nothingToDo,
  finish: nothingToDo,
  afterStage: now,
  afterCutOver: desired,
  afterDefaults: desired,
  desired,
});

/** All steps lie before the commit record: nothing may be left to do after it. */
function planUpdate(now: NodeState, desired: NodeState, options: PlanOptions): TransactionPlan {
  if (!tableDiffers('filter', now, desired)) return planInPlace(now, desired, options);
  const wide = mixed(bothPrograms(now, desired, 'both'), now);
  const narrow = mixed(wide, desired);
  const step = (from: NodeState, to: NodeState, table: TableName, because: string): Plan =>
    tablePlan(to, { from, tables: [table], because }, options);
  const before = step(now, wide, 'filter', 'filter allows the old and the new nat table');
  const between = step(wide, narrow, 'nat', 'a Service gets its first endpoint, or loses its last one');
  const behind = step(narrow, desired, 'filter', 'filter allows only the new nat table');
  const sysctls = sysctlSteps(now, desired);
  const steps = [...sysctls.before, ...before.steps, ...between.steps, ...afterPause(behind.steps), ...sysctls.after];
  const cutOver = { steps, touched: [...between.touched, ...behind.touched] };
  return { ...inPlaceStates(now, desired), cutOver };
}

/** The filter of one state and the nat of another. */
function mixed(filter: NodeState, nat: NodeState): NodeState {
  const families = familyNames.filter((family) => filter.families[family] ?? nat.families[family]);
  const states = { filter, nat };
  return { ...nat, families: mapTables(families, (family, table) => tableOf(states[table], family, table)) };
}

function planBySwitch(now: NodeState, desired: NodeState, options: PlanOptions): TransactionPlan {
  const sysctls = sysctlSteps(now, desired);
  const afterStage = bothPrograms(now, desired, 'switch');
  // The legacy backend copies the whole table for each commit, so old chains are removed together with setting the defaults.
  const afterDefaults =
    options.slowWithManyChains || narrows(now, desired) ? bothPrograms(now, desired, 'new') : desired;
  const stage = tablePlan(
    afterStage,
    { from: now, tables: natFirst, because: 'beside the old program, which stays' },
    options,
  );
  const defaults = tablePlan(
    afterDefaults,
    { from: afterStage, tables: natFirst, because: 'the new program is the default' },
    options,
  );
  return {
    flip: 'switch',
    stage: { ...stage, steps: [...sysctls.before, ...stage.steps] },
    cutOver: { steps: sysctls.after, touched: [] },
    defaults,
    finish: finishPlan(afterDefaults, desired, options),
    afterStage,
    afterCutOver: afterStage,
    afterDefaults,
    desired,
  };
}

function planInOrder(now: NodeState, desired: NodeState, options: PlanOptions): TransactionPlan {
  const sysctls = sysctlSteps(now, desired);
  const afterCutOver = bothPrograms(now, desired, 'both');
  const cutOver = tablePlan(
    afterCutOver,
    { from: now, tables: filterFirst, because: 'packets go to the new program' },
    options,
  );
  return {
    flip: 'ordered',
    stage: nothingToDo,
    cutOver: { ...cutOver, steps: [...sysctls.before, ...cutOver.steps, ...sysctls.after] },
    defaults: nothingToDo,
    finish: finishPlan(afterCutOver, desired, options),
    afterStage: now,
    afterCutOver,
    afterDefaults: afterCutOver,
    desired,
  };
}

const natFirst = ['nat', 'filter'] as const;
const filterFirst = ['filter', 'nat'] as const;

/** Waits first, so that packets that met the old nat rules have passed the filter table before it narrows. */
function finishPlan(from: NodeState, desired: NodeState, options: PlanOptions): Plan {
  const order = { from, tables: natFirst, because: 'removes what only the old program needs' };
  const { steps, touched } = tablePlan(desired, order, options);
  return { steps: afterPause(steps), touched };
}

function afterPause(steps: readonly Step[]): readonly Step[] {
  return steps.map((step, at) =>
    at === 0 && step.kind === 'restore-table' ? { ...step, pauseMs: limits.narrowPauseMs } : step,
  );
}

/** Both programs side by side, with the sysctls of the desired state. */
function bothPrograms(now: NodeState, desired: NodeState, lead: Lead): NodeState {
  const families = familyNames.filter((family) => now.families[family] ?? desired.families[family]);
  return {
    ...desired,
    families: mapTables(families, (family, table) =>
      sideBySide(table, tableOf(now, family, table), tableOf(desired, family, table), lead),
    ),
  };
}

function narrows(now: NodeState, desired: NodeState): boolean {
  return familyNames.some((family) =>
    natFirst.some((table) => differInBaseChains(table, tableOf(now, family, table), tableOf(desired, family, table))),
  );
}
