import {
  addAll,
  changeTable,
  type Family,
  isEmptyChange,
  printChange,
  type TableChange,
  type TableName,
  type TableProgram,
  widen,
} from '@sluice/netfilter';
import { aroundTables, type OtherPlanes, hasServers } from './other-planes.ts';
import { ipvsSteps } from '../../ports/ipvs/plan.ts';
import { limits } from '../../limits.ts';
import type { Step } from '../../ports/kernel.ts';
import type { Touched } from '../../ports/rehearsal.ts';
import { stages } from './stages.ts';
import { familyNames, mapTables, type NodeState, tableOf } from '../../ports/node-state.ts';

/** The steps from one state of the kernel to another, in order. A value: it can be printed, counted, tested and carried out. */
export interface Plan {
  readonly steps: readonly Step[];
  /** The tables that differ between the two states, and how. */
  readonly touched: readonly Touched[];
}

export const nothingToDo: Plan = { steps: [], touched: [] };

export interface PlanOptions {
  /** See `Kernel.slowWithManyChains`. */
  readonly slowWithManyChains: boolean;
}

/**
 * Decides which steps lead from `now` to `desired`, and in which order; none if they are equal. A rollback is a plan from the observed state
 * to the previous one.
 *
 * Every intermediate state serves traffic correctly:
 * - one step is one table of one family, which the kernel takes whole or not at all;
 * - within a family the filter table first allows what the old and the new nat table need, then nat changes in one commit,
 *   then, when packets that met the old nat table are past the filter, the filter table becomes the new one;
 * - sets, virtual servers and their addresses are added before the rules that lead to them, and removed after these; a node that
 *   leaves mode iptables gets the addresses once the filter table protects its own programs from packets to them, and before nat changes:
 *   the old nat rules translate before the routing decision, and the new ones leave packets to the addresses;
 * - sysctls that let more in (`route_localnet`) are raised after the rules that guard them, and lowered before these are removed; those
 *   that the kernel does not have yet, as after a boot, are set after the rules, which load their modules.
 * @param otherPlanes what is beside the tables now
 */
export function plan(now: NodeState, desired: NodeState, options: PlanOptions, otherPlanes: OtherPlanes = {}): Plan {
  const { cutOver, leaving } = planInTwo(now, desired, options, otherPlanes);
  return { steps: [...cutOver.steps, ...leaving.steps], touched: [...cutOver.touched, ...leaving.touched] };
}

/** A plan in two parts, for a node that leaves mode ipvs. */
interface PlanInTwo {
  /** From the first of these steps on packets meet the new rules. All of the plan, where virtual servers stay. */
  readonly cutOver: Plan;
  /** The state of the kernel between the two. */
  readonly between: NodeState;
  /**
   * May come later: new connections have other rules, and IPVS goes on to forward those that it has. The filter table narrows once the
   * addresses are gone, as it keeps packets to them from the node's own programs.
   */
  readonly leaving: Plan;
}

/** The same as `plan`, in two parts. */
export function planInTwo(
  now: NodeState,
  desired: NodeState,
  options: PlanOptions,
  otherPlanes: OtherPlanes,
): PlanInTwo {
  const leaves = leavesServers(desired, otherPlanes);
  const between = leaves ? withWideFilter(now, desired) : desired;
  const cutOver = planCutOver(now, between, options, otherPlanes);
  if (!leaves) return { cutOver, between, leaving: { steps: [], touched: [] } };
  const order = { from: between, tables: ['filter'], because: 'filter allows only the new nat table' } as const;
  const { steps, touched } = tablePlan(desired, order, options);
  return { cutOver, between, leaving: planLeaving({ steps: afterPause(steps), touched }, now, desired, otherPlanes) };
}

/** The state with a filter table that has the rules of both. */
function withWideFilter(now: NodeState, desired: NodeState): NodeState {
  const families = familyNames.filter((family) => now.families[family] ?? desired.families[family]);
  const wide = (family: Family, table: TableName): TableProgram =>
    table === 'nat'
      ? tableOf(desired, family, table)
      : widen(tableOf(now, family, table), tableOf(desired, family, table));
  return { ...desired, families: mapTables(families, wide) };
}

/** The same without `planLeaving`. */
export function planCutOver(now: NodeState, desired: NodeState, options: PlanOptions, otherPlanes: OtherPlanes): Plan {
  const touched: Touched[] = [];
  const tables = familyNames.map((family) => familySteps(family, now, desired, options, touched));
  const sysctls = sysctlSteps(now, desired, leavesServers(desired, otherPlanes));
  const { before, between, after } = aroundTables(now, desired, otherPlanes);
  const early = between.length > 0 ? sysctls.after.filter(isOfModule) : [];
  const late = sysctls.after.filter((step) => !early.includes(step));
  const inOrder =
    between.length > 0
      ? [
          ...tables.flatMap(({ widen: steps }) => steps),
          ...early,
          ...between,
          ...tables.flatMap(({ change }) => change),
        ]
      : tables.flatMap(({ widen: steps, change }) => [...steps, ...change]);
  const steps = [...sysctls.before, ...before, ...inOrder, ...late, ...after];
  return { steps, touched };
}

/**
 * What a node that leaves mode ipvs removes: first the addresses and virtual servers, then the rules that only these need, then the sets that
 * the rules refer to, and what it set for them last.
 * @param rules the plan of the rules that go
 */
export function planLeaving(
  rules: Plan,
  now: NodeState,
  desired: NodeState,
  { virtual }: Pick<OtherPlanes, 'virtual'>,
): Plan {
  if (!virtual || hasServers(desired)) return rules;
  const [sets, servers] = partition(ipvsSteps(virtual.plan), ({ kind }) => kind === 'ipset');
  const { last } = sysctlSteps(now, desired, true);
  return { ...rules, steps: [...servers, ...rules.steps, ...sets, ...last] };
}

function partition<T>(all: readonly T[], is: (one: T) => boolean): readonly [readonly T[], readonly T[]] {
  return [all.filter(is), all.filter((one) => !is(one))];
}

/** Whether a node has virtual servers of ours, and is to have none. */
export const leavesServers = (desired: NodeState, { virtual }: OtherPlanes): boolean =>
  virtual !== undefined && !hasServers(desired);

/** A sysctl that came with the module, which the virtual servers have loaded: connections must be tracked from the first one on. */
const isOfModule = (step: Step): boolean => step.kind === 'set-sysctl' && step.key.startsWith('net.ipv4.vs.');

/** Keeps the node from answering ARP for the addresses of virtual servers, which are bound to it (`strictARP`). */
const hidesAddresses = (step: Step): boolean =>
  step.kind === 'set-sysctl' && /^net\.ipv4\.conf\.all\.arp_(?:ignore|announce)$/.test(step.key);

interface FamilySteps {
  /** Rules of filter that the old and the new nat table can have. */
  readonly widen: readonly Step[];
  readonly change: readonly Step[];
}

function familySteps(
  family: Family,
  now: NodeState,
  desired: NodeState,
  options: PlanOptions,
  touched: Touched[],
): FamilySteps {
  const from = { filter: tableOf(now, family, 'filter'), nat: tableOf(now, family, 'nat') };
  const to = { filter: tableOf(desired, family, 'filter'), nat: tableOf(desired, family, 'nat') };
  for (const table of ['filter', 'nat'] as const) {
    const change = changeTable(from[table], to[table]);
    if (!isEmptyChange(change)) touched.push({ family, table, change });
  }
  const differs = (table: TableName): boolean => touched.some((one) => one.family === family && one.table === table);
  const steps = (table: TableName, a: TableProgram, b: TableProgram, why: string): Step[] =>
    tableSteps(family, table, a, b, options, why);
  const whole = (change: Step[]): FamilySteps => ({ widen: [], change });
  if (!differs('nat')) return whole(steps('filter', from.filter, to.filter, 'filter changes, nat stays'));
  if (!differs('filter')) return whole(steps('nat', from.nat, to.nat, 'nat changes, filter stays'));
  const wide = widen(from.filter, to.filter);
  return {
    widen: steps('filter', from.filter, wide, 'filter allows the old and the new nat table'),
    change: [
      ...steps('nat', from.nat, to.nat, 'nat changes'),
      ...afterPause(steps('filter', wide, to.filter, 'filter allows only the new nat table')),
    ],
  };
}

/** Packets that were translated by the old nat table pass the filter table within 50 ms. */
function afterPause(steps: readonly Step[]): Step[] {
  return steps.map((step, index) => (index === 0 ? { ...step, pauseMs: limits.narrowPauseMs } : step));
}

function tableSteps(
  family: Family,
  table: TableName,
  from: TableProgram,
  to: TableProgram,
  options: PlanOptions,
  why: string,
): Step[] {
  const whole = changeTable(from, to);
  if (isOneCommit(whole, options)) return oneStep(family, table, whole, why);
  const states = stages(from, to, limits.chainsPerPayloadMax);
  const steps: Step[] = [];
  let previous = from;
  for (const state of states) {
    const text = printChange(table, changeTable(previous, state));
    const because = state === to ? why : `${why}: chains that no rule leads to`;
    if (text !== '') steps.push({ kind: 'restore-table', family, table, text, because });
    previous = state;
  }
  return steps;
}

/** Whether a change of a table is one step. */
export const isOneCommit = ({ write, drop }: TableChange, { slowWithManyChains }: PlanOptions): boolean =>
  !slowWithManyChains || Math.max(write.size, drop.length) <= limits.chainsPerPayloadMax;

function oneStep(family: Family, table: TableName, change: TableChange, because: string): Step[] {
  const text = printChange(table, change);
  return text === '' ? [] : [{ kind: 'restore-table', family, table, text, because }];
}

/** A change of tables alone, in an order that the caller has chosen. */
interface TableOrder {
  readonly from: NodeState;
  /** The order of the tables within a family. */
  readonly tables: readonly TableName[];
  readonly because: string;
}

/** The steps that change every table that differs, each in one commit, except for chains that no rule leads to. */
export function tablePlan(desired: NodeState, { from, tables, because }: TableOrder, options: PlanOptions): Plan {
  const steps: Step[] = [];
  const touched: Touched[] = [];
  for (const family of familyNames) {
    for (const table of tables) {
      const [a, b] = [tableOf(from, family, table), tableOf(desired, family, table)];
      const change = changeTable(a, b);
      if (isEmptyChange(change)) continue;
      touched.push({ family, table, change });
      addAll(steps, tableSteps(family, table, a, b, options, because));
    }
  }
  return { steps, touched };
}

/** The steps of sysctls around those of the rules. */
interface SysctlSteps {
  readonly before: readonly Step[];
  /** Those that let more in (`route_localnet`), and the hash size. */
  readonly after: readonly Step[];
  /**
   * Those of IPVS on a node that leaves its mode, behind the removal of virtual servers and their addresses: a connection that begins
   * without `net.ipv4.vs.conntrack` is not tracked, and its next packet would be translated again, to any endpoint; without `strictARP` the
   * node would answer ARP for these addresses.
   */
  readonly last: readonly Step[];
}

/** The sysctls that differ, by when they are set. @param leaves see `leavesServers` */
export function sysctlSteps(now: NodeState, desired: NodeState, leaves: boolean): SysctlSteps {
  const before: Step[] = [];
  const after: Step[] = [];
  const last: Step[] = [];
  for (const [key, value] of desired.sysctls) {
    const old = now.sysctls.get(key);
    if (old === value) continue;
    const opens = key.endsWith('.route_localnet') && value > 0;
    const step = { kind: 'set-sysctl', key, value, because: `it is ${old ?? 'unknown'}` } as const;
    if (leaves && (isOfModule(step) || hidesAddresses(step))) last.push(step);
    else (opens || old === undefined ? after : before).push(step);
  }
  return { before, after: [...after, ...hashSizeSteps(now, desired)], last };
}

function hashSizeSteps(now: NodeState, desired: NodeState): Step[] {
  const [size, value] = [now.conntrackHashSize, desired.conntrackHashSize];
  if (value === undefined || size === undefined || size >= value) return [];
  return [{ kind: 'raise-hashsize', value, because: `it is ${size}` }];
}

/** One line of text: what a step does and why. */
export function describeStep(step: Step): string {
  const { kind, because } = step;
  if (kind === 'restore-table')
    return `${step.family} ${step.table}: ${step.text.split('\n').length - 3} lines (${because})`;
  if (kind === 'set-sysctl') return `sysctl ${step.key} = ${step.value} (${because})`;
  if (kind === 'raise-hashsize') return `conntrack hash size ${step.value} (${because})`;
  return `${kind}: ${step.text.split('\n').length - 1} lines (${because})`;
}
