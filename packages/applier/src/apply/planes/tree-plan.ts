import { changeTable, isEmptyChange, type TableName } from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import { isOneCommit, nothingToDo, type Plan, type PlanOptions, sysctlSteps, tablePlan } from '../plan/plan.ts';
import { differInBaseChains, type Lead, sideBySide } from '../plan/side-by-side.ts';
import { inPlaceStates, planInPlace, type TransactionPlan } from '../plan/transaction-plan.ts';
import type { Step } from '../../ports/kernel.ts';
import { familyNames, mapTables, type NodeState, tableOf } from '../../ports/node-state.ts';

/** Whether any rule or jump differs. */
export function tablesDiffer(now: NodeState, desired: NodeState): boolean {
  return natFirst.some((table) => tableDiffers(table, now, desired));
}

function tableDiffers(table: TableName, now: NodeState, desired: NodeState): boolean {
  return familyNames.some(
    (family) => !isEmptyChange(changeTable(tableOf(now, family, table), tableOf(desired, family, table))),
  );
}

/** All steps lie before the commit record: nothing may be left to do after it. */
export function planUpdate(now: NodeState, desired: NodeState, options: PlanOptions): TransactionPlan {
  if (!tableDiffers('filter', now, desired)) return planInPlace(now, desired, options);
  const wide = mixed(bothPrograms(now, desired, 'both'), now);
  const narrow = mixed(wide, desired);
  const step = (from: NodeState, to: NodeState, table: TableName, because: string): Plan =>
    tablePlan(to, { from, tables: [table], because }, options);
  const before = step(now, wide, 'filter', 'filter allows the old and the new nat table');
  const between = step(wide, narrow, 'nat', 'a Service gets its first endpoint, or loses its last one');
  const behind = step(narrow, desired, 'filter', 'filter allows only the new nat table');
  const sysctls = sysctlSteps(now, desired, false);
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

/** @param leaves see `leavesServers` */
export function planBySwitch(
  now: NodeState,
  desired: NodeState,
  options: PlanOptions,
  leaves: boolean,
): TransactionPlan {
  const sysctls = sysctlSteps(now, desired, leaves);
  const afterStage = bothPrograms(now, desired, 'switch');
  // A commit costs as much as the whole table, so old chains are removed together with setting the defaults.
  const isTwo = narrows(now, desired) || !areOneCommit(afterStage, desired, options);
  const afterDefaults = isTwo ? bothPrograms(now, desired, 'new') : desired;
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

/** @param leaves see `leavesServers` */
export function planInOrder(
  now: NodeState,
  desired: NodeState,
  options: PlanOptions,
  leaves: boolean,
): TransactionPlan {
  const sysctls = sysctlSteps(now, desired, leaves);
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

/** Whether each table changes in one commit. */
function areOneCommit(from: NodeState, to: NodeState, options: PlanOptions): boolean {
  return familyNames.every((family) =>
    natFirst.every((table) =>
      isOneCommit(changeTable(tableOf(from, family, table), tableOf(to, family, table)), options),
    ),
  );
}

function narrows(now: NodeState, desired: NodeState): boolean {
  return familyNames.some((family) =>
    natFirst.some((table) => differInBaseChains(table, tableOf(now, family, table), tableOf(desired, family, table))),
  );
}
