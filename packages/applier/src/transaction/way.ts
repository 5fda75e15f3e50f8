import { changeTable, isEmptyChange, type TableName } from '@sluice/bundle';
import { ipvsSteps } from '../ipvs/plan.ts';
import { limits } from '../limits.ts';
import type { IpvsPlan } from '../ipvs/values.ts';
import { nothingToDo, type Plan, plan, type PlanOptions, sysctlSteps, tablePlan } from '../rollout/plan.ts';
import type { Flip, ChangeKind, Step } from '../rollout/ports.ts';
import { familyNames, mapTables, type NodeState, tableOf } from '../rollout/state.ts';
import { beside, differInBaseChains, type Lead } from './beside.ts';
import { isTree } from './entries.ts';

/**
 * How a node comes from one state to another: everything that is done to tables and sysctls, decided before the first step is
 * taken. Flipping, the commit token and the probation lie between the parts; transaction.ts has the story.
 */
export interface Way {
  readonly flip: Flip;
  /** Harmless: what no packet meets yet, and what lets no more through. */
  readonly stage: Plan;
  /** From the first of these on packets go the new way. Only sysctls when the switch does that. */
  readonly turn: Plan;
  /** After the token: the new program is what the kernel falls back to. */
  readonly defaults: Plan;
  /** What only the old program needs goes. */
  readonly collect: Plan;
  /** What the kernel holds after `stage`, after `turn`, after `defaults`, and at the end. */
  readonly staged: NodeState;
  readonly turned: NodeState;
  readonly settling: NodeState;
  readonly desired: NodeState;
}

/**
 * The way from `now` to `desired`.
 *
 * - The desired state in layout `tree`: its chains beside the old ones, then the switch, then the defaults; nothing of the old program is
 *   removed before the token. Ordered: filter asks both programs, then nat goes to the new one.
 * - The desired state in layout `flat`: filter allows what both need, nat changes, filter narrows, and with that the old program is gone.
 *
 * - An update of endpoints is the program when its steps are done: no token lies between them. Mostly it changes nat alone, in one
 *   commit of each family; with a first or last endpoint filter asks both programs first and the new one alone afterwards.
 *
 * Sets, virtual servers and addresses of mode ipvs know no switch either: they come and change in the order of `plan`; where they
 * go because the desired state is in layout `tree`, that is after everything that led to them.
 * @param flip `switch` only where the kernel has one; a change that needs none does without
 * @param virtual what changes in mode ipvs
 */
export function wayTo(
  now: NodeState,
  desired: NodeState,
  { changeKind, flip }: { readonly changeKind: ChangeKind; readonly flip: Flip },
  options: PlanOptions,
  virtual?: IpvsPlan,
): Way {
  if (changeKind === 'endpoints')
    return isTree(desired) ? updateWay(now, desired, options) : directWay(now, desired, options, virtual);
  return probationWay(
    now,
    desired,
    flip === 'switch' && tablesDiffer(now, desired) ? flip : 'ordered',
    options,
    virtual,
  );
}

/** The same for a flip that is known: that of a trial whose programs get newer endpoints. */
export function probationWay(
  now: NodeState,
  desired: NodeState,
  flip: Flip,
  options: PlanOptions,
  virtual?: IpvsPlan,
): Way {
  if (!isTree(desired)) return directWay(now, desired, options, virtual);
  const way = flip === 'switch' ? switchWay(now, desired, options) : orderedWay(now, desired, options);
  if (!virtual) return way;
  const { steps, touched } = way.collect;
  return { ...way, collect: { steps: [...steps, ...ipvsSteps(virtual)], touched } };
}

function tablesDiffer(now: NodeState, desired: NodeState): boolean {
  return natFirst.some((table) => tableDiffers(table, now, desired));
}

function tableDiffers(table: TableName, now: NodeState, desired: NodeState): boolean {
  return familyNames.some(
    (family) => !isEmptyChange(changeTable(tableOf(now, family, table), tableOf(desired, family, table))),
  );
}

/** All steps of a way, in order. */
export function stepsOf({ stage, turn, defaults, collect }: Way): readonly Step[] {
  return [stage, turn, defaults, collect].flatMap(({ steps }) => steps);
}

/** In place: what the desired state lacks is gone when it is there. */
function directWay(now: NodeState, desired: NodeState, options: PlanOptions, virtual?: IpvsPlan): Way {
  return { ...inPlace(now, desired), turn: plan(now, desired, options, virtual) };
}

const inPlace = (now: NodeState, desired: NodeState): Omit<Way, 'turn'> => ({
  flip: 'ordered',
  stage: nothingToDo,
  defaults: nothingToDo,
  collect: nothingToDo,
  staged: now,
  turned: desired,
  settling: desired,
  desired,
});

/** Everything lies before the token: behind it nothing may be left to do for an update. */
function updateWay(now: NodeState, desired: NodeState, options: PlanOptions): Way {
  if (!tableDiffers('filter', now, desired)) return directWay(now, desired, options);
  const wide = mixed(held(now, desired, 'both'), now);
  const narrow = mixed(wide, desired);
  const step = (from: NodeState, to: NodeState, table: TableName, because: string): Plan =>
    tablePlan(to, { from, tables: [table], because }, options);
  const before = step(now, wide, 'filter', 'filter allows the old and the new nat table');
  const between = step(wide, narrow, 'nat', 'a Service comes to its first endpoint, or loses its last one');
  const behind = step(narrow, desired, 'filter', 'filter allows only the new nat table');
  const sysctls = sysctlSteps(now, desired);
  const steps = [...sysctls.before, ...before.steps, ...between.steps, ...afterPause(behind.steps), ...sysctls.after];
  const turn = { steps, touched: [...between.touched, ...behind.touched] };
  return { ...inPlace(now, desired), turn };
}

/** The filter of one state and the nat of another. */
function mixed(filter: NodeState, nat: NodeState): NodeState {
  const families = familyNames.filter((family) => filter.families[family] ?? nat.families[family]);
  const states = { filter, nat };
  return { ...nat, families: mapTables(families, (family, table) => tableOf(states[table], family, table)) };
}

function switchWay(now: NodeState, desired: NodeState, options: PlanOptions): Way {
  const sysctls = sysctlSteps(now, desired);
  const staged = held(now, desired, 'switch');
  // The legacy backend copies the whole table for each commit, so what goes, goes with the new defaults.
  const settling = options.slowWithManyChains || narrows(now, desired) ? held(now, desired, 'new') : desired;
  const stage = tablePlan(
    staged,
    { from: now, tables: natFirst, because: 'beside the old program, which stays' },
    options,
  );
  const defaults = tablePlan(
    settling,
    { from: staged, tables: natFirst, because: 'the new program is the default' },
    options,
  );
  return {
    flip: 'switch',
    stage: { ...stage, steps: [...sysctls.before, ...stage.steps] },
    turn: { steps: sysctls.after, touched: [] },
    defaults,
    collect: collectPlan(settling, desired, options),
    staged,
    turned: staged,
    settling,
    desired,
  };
}

function orderedWay(now: NodeState, desired: NodeState, options: PlanOptions): Way {
  const sysctls = sysctlSteps(now, desired);
  const turned = held(now, desired, 'both');
  const turn = tablePlan(turned, { from: now, tables: filterFirst, because: 'packets go to the new program' }, options);
  return {
    flip: 'ordered',
    stage: nothingToDo,
    turn: { ...turn, steps: [...sysctls.before, ...turn.steps, ...sysctls.after] },
    defaults: nothingToDo,
    collect: collectPlan(turned, desired, options),
    staged: now,
    turned,
    settling: turned,
    desired,
  };
}

const natFirst = ['nat', 'filter'] as const;
const filterFirst = ['filter', 'nat'] as const;

/** Packets that went the old way are past the tables before what they meet narrows. */
function collectPlan(from: NodeState, desired: NodeState, options: PlanOptions): Plan {
  const way = { from, tables: natFirst, because: 'what only the old program needs goes' };
  const { steps, touched } = tablePlan(desired, way, options);
  return { steps: afterPause(steps), touched };
}

function afterPause(steps: readonly Step[]): readonly Step[] {
  return steps.map((step, at) =>
    at === 0 && step.kind === 'restore-table' ? { ...step, pauseMs: limits.narrowPauseMs } : step,
  );
}

/** Both programs side by side, with the sysctls of the desired state. */
function held(now: NodeState, desired: NodeState, lead: Lead): NodeState {
  const families = familyNames.filter((family) => now.families[family] ?? desired.families[family]);
  return {
    ...desired,
    families: mapTables(families, (family, table) =>
      beside(table, tableOf(now, family, table), tableOf(desired, family, table), lead),
    ),
  };
}

function narrows(now: NodeState, desired: NodeState): boolean {
  return familyNames.some((family) =>
    natFirst.some((table) => differInBaseChains(table, tableOf(now, family, table), tableOf(desired, family, table))),
  );
}
