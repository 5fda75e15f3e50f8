import type { ObservedIpvs } from '../../ports/ipvs/values.ts';
import { noTimeouts, planVirtual, verifyVirtual } from '../plan/virtual.ts';
import type { Ports } from '../../ports/ports.ts';
import type { PlannedChange } from './planned-change.ts';
import {
  canonicalRule,
  changedChains,
  families,
  type Family,
  type TableName,
  tableNames,
  treeEntries,
} from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import { chainNames, familiesOf, type NodeState, tableOf, isTree } from '../../ports/node-state.ts';
import { isTableIntact } from '../plan/nftables.ts';
import { ownState } from '../plan/ownership.ts';
import { describeStep, type Plan, plan } from '../plan/plan.ts';
import { nodePlaneOf } from '../planes/planes.ts';
import type { Touched } from '../../ports/rehearsal.ts';
import type { Kernel } from '../../ports/kernel.ts';
import type { TransactionPlan } from '../plan/transaction-plan.ts';

/**
 * Verifies the kernel after a plan was carried out.
 *
 * A plan that touched a few chains is verified by reading these back: the others were verified before, and the next full comparison
 * covers them. A larger plan is verified by reading the tables.
 * @returns the first difference from `desired`, in words; undefined if there is none
 */
export async function firstDifference(desired: NodeState, change: Plan, kernel: Kernel): Promise<string | undefined> {
  const sysctl = await sysctlDifference(change, kernel);
  if (sysctl !== undefined) return sysctl;
  if (!change.touched.every(isSmall)) return tablesDifference(desired, kernel);
  for (const touched of change.touched) {
    const difference = await chainsDifference(touched, wasOneCommit(touched, change), kernel);
    if (difference !== undefined) return difference;
  }
  return undefined;
}

const wasOneCommit = ({ family, table }: Touched, { steps }: Plan): boolean =>
  steps.filter((step) => step.kind === 'restore-table' && step.family === family && step.table === table).length === 1;

function isSmall({ change }: Touched): boolean {
  return (
    changedChains(change).length <= limits.chainsReadSinglyMax && change.insert.length + change.remove.length === 0
  );
}

/**
 * @param isOneCommit the change of the table was one commit, which has happened or not: where one chain is gone, all are. Each missing one that
 *   is asked for costs a process.
 */
async function chainsDifference(
  { family, table, change }: Touched,
  isOneCommit: boolean,
  kernel: Kernel,
): Promise<string | undefined> {
  const names = [...change.write.keys(), ...change.drop.slice(0, isOneCommit ? 1 : undefined)];
  const actual = await kernel.observeChains(family, { [table]: names });
  return names
    .map((name) => rulesDifference(family, table, name, change.write.get(name), actual[table].get(name)))
    .find((one) => one !== undefined);
}

function rulesDifference(
  family: Family,
  table: TableName,
  name: string,
  expected: readonly string[] | undefined,
  actual: readonly string[] | undefined,
): string | undefined {
  const spell = (rules: readonly string[] | undefined): string | undefined => rules?.map(canonicalRule).join('\n');
  return spell(expected) === spell(actual) ? undefined : `${family} ${table} chain ${name}`;
}

/**
 * Compares all that a plan put into the kernel, for what is decided by it: that probes fail says something about a release only on its rules.
 * @returns the first difference, which is another program's
 */
export async function foreignDifference(
  { afterCutOver }: Pick<TransactionPlan, 'afterCutOver'>,
  kernel: Kernel,
): Promise<string | undefined> {
  if (!(await isTableIntact(kernel))) return 'table inet sluice';
  return familiesOf(afterCutOver).length === 0 ? undefined : tablesDifference(afterCutOver, kernel);
}

/**
 * Compares all rules with a state. Changes and remembers nothing: it may run beside a change.
 * @param known the tables of the state as this kernel can have them, if they are known
 */
export async function ruleDifference(
  state: NodeState,
  known: NodeState | undefined,
  ports: Ports,
): Promise<string | undefined> {
  const plane = nodePlaneOf(state);
  if (!plane.hasServers && !plane.hasOwnTable) return foreignDifference({ afterCutOver: known ?? state }, ports.kernel);
  const among = familiesOf(state);
  const observed = among.length === 0 ? {} : await ports.kernel.observe(among, state);
  return (await plane.shows(observed, state, ports)) ? undefined : `${plane.label} is not as loaded`;
}

/**
 * What of mode ipvs another program has taken away, such as all virtual servers (`ipvsadm -C`).
 * @param isRefused the kernel refused a step: what the change leaves as it was is compared with what was there before it; else all of the
 *   release is compared
 * @returns the first thing that is missing
 */
export async function takenFromIpvs(
  change: PlannedChange,
  isRefused: boolean,
  ports: Ports,
): Promise<string | undefined> {
  const {
    plan: { desired },
    owned,
    virtual: before,
  } = change;
  if (!desired.ipvs || !ports.kernel.ipvs) return undefined;
  if (isRefused) return before && missingOf(desired.ipvs, before.observed, await ports.kernel.ipvs.observe(noTimeouts));
  const { plan: left } = (await planVirtual(desired, owned, ports)) ?? {};
  const [first] = left ? [...left.sets, ...left.servers, ...left.bind] : [];
  return first && `${first.kind}: ${first.text.slice(0, first.text.indexOf('\n'))}`;
}

/** The first thing that a state has, and that was there before, and is not now. */
function missingOf(
  { virtualServers, sets, addresses }: NonNullable<NodeState['ipvs']>,
  before: ObservedIpvs,
  now: ObservedIpvs,
): string | undefined {
  for (const [key, { real }] of virtualServers) {
    const [was, is] = [before.servers.get(key), now.servers.get(key)];
    if (was && !is) return `virtual server ${key}`;
    const gone = [...real.keys()].find((to) => was?.real.has(to) === true && is?.real.has(to) !== true);
    if (gone !== undefined) return `real server ${gone} of ${key}`;
  }
  for (const [name, { entries }] of sets) {
    const [was, is] = [before.sets.get(name), now.sets.get(name)];
    if (was && !is) return `set ${name}`;
    const gone = [...entries].find((entry) => was?.entries.has(entry) === true && is?.entries.has(entry) !== true);
    if (gone !== undefined) return `${gone} of set ${name}`;
  }
  return families
    .flatMap((family) =>
      addresses[family].filter((one) => before.bound?.[family].has(one) && !now.bound?.[family].has(one)),
    )
    .map((address) => `address ${address}`)[0];
}

/**
 * Compares what no step of a change writes with the state before it: of a step that the kernel refused, that another program removed what the
 * step was planned from. Virtual servers and sets of mode ipvs: `takenFromIpvs`.
 * @returns the first difference, which is another program's
 */
export async function untouchedDifference(
  { now, plan: { stage, cutOver } }: Pick<PlannedChange, 'now' | 'plan'>,
  kernel: Kernel,
): Promise<string | undefined> {
  if (!(await isTableIntact(kernel, true))) return 'table inet sluice';
  const among = familiesOf(now);
  const observed = among.length === 0 ? {} : await kernel.observe(among, now);
  const touched = [...stage.touched, ...cutOver.touched];
  for (const family of among) {
    for (const table of tableNames) {
      const changes = touched.filter((one) => one.family === family && one.table === table);
      const written = new Set(changes.flatMap(({ change }) => changedChains(change)));
      const actual = observed[family]?.[table].chains;
      for (const [name, rules] of tableOf(now, family, table).chains) {
        const difference = written.has(name)
          ? undefined
          : rulesDifference(family, table, name, rules, actual?.get(name)?.rules);
        if (difference !== undefined) return difference;
      }
    }
  }
  return undefined;
}

async function tablesDifference(desired: NodeState, kernel: Kernel): Promise<string | undefined> {
  const observed = await kernel.observe(familiesOf(desired), desired);
  const now: NodeState = { ...desired, families: ownState(observed, chainNames(desired), desired) };
  const left = plan(now, desired, kernel).steps;
  return left.length === 0 ? undefined : left.map(describeStep).join('; ');
}

async function sysctlDifference(change: Plan, kernel: Kernel): Promise<string | undefined> {
  for (const step of change.steps) {
    if (step.kind !== 'set-sysctl') continue;
    const value = await kernel.readSysctl(step.key);
    if (value !== step.value) return `sysctl ${step.key} is ${value ?? 'not readable'}, not ${step.value}`;
  }
  return undefined;
}

/** Compares the entry chains of some tables with a state. Cheap: it reads few chains. @returns the first that differs */
async function entryDifference(
  state: NodeState,
  family: Family,
  tables: readonly TableName[],
  kernel: Kernel,
): Promise<string | undefined> {
  const names = (table: TableName): readonly string[] =>
    treeEntries[table].filter((name) => tableOf(state, family, table).chains.has(name));
  const wanted = tables.map((table) => [table, names(table)] as const).filter(([, own]) => own.length > 0);
  if (wanted.length === 0) return undefined;
  const actual = await kernel.observeChains(family, Object.fromEntries(wanted));
  for (const [table, own] of wanted) {
    const { chains } = tableOf(state, family, table);
    const changed = own.find((name) => actual[table].get(name)?.join('\n') !== chains.get(name)?.join('\n'));
    if (changed !== undefined) return `${family} ${table} chain ${changed}`;
  }
  return undefined;
}

/**
 * Compares what leads packets to a state: its entry chains, and whether the table of mode nftables is there. Cheap: it reads few chains.
 * @returns the first that differs, in words
 */
export async function leadDifference(state: NodeState, kernel: Kernel): Promise<string | undefined> {
  const missing = await nodePlaneOf(state).missing(kernel);
  if (missing !== undefined) return missing;
  for (const family of familiesOf(state)) {
    const difference = await entryDifference(state, family, tableNames, kernel);
    if (difference !== undefined) return difference;
  }
  return undefined;
}

/**
 * Compares the kernel with the result of an endpoint update.
 *
 * In layout `tree` it is enough to read the entry chains of the tables that were touched: a table changes in one commit, an entry
 * chain names the root, and a tagged name stands for the content of a chain and of all chains below it.
 * @returns the first difference
 */
export async function updateDifference(
  { afterCutOver }: Pick<TransactionPlan, 'afterCutOver'>,
  steps: Plan,
  kernel: Kernel,
): Promise<string | undefined> {
  const keepsJumps = steps.touched.every(({ change }) => change.insert.length + change.remove.length === 0);
  if (!isTree(afterCutOver) || !keepsJumps) return firstDifference(afterCutOver, steps, kernel);
  for (const { family, table } of steps.touched) {
    const difference = await entryDifference(afterCutOver, family, [table], kernel);
    if (difference !== undefined) return difference;
  }
  return undefined;
}

/**
 * Reads mode ipvs back after the steps, if the desired state has it, and writes down which real servers drain.
 * @returns the missing steps in words as `left`, if there are any, and the observed state
 */
export async function verifyIpvs(change: PlannedChange, ports: Ports): Promise<VerifiedIpvs> {
  return change.plan.desired.ipvs ? readBack(change, ports) : {};
}

/** What is left of mode ipvs, in words, after a change away from it. */
export async function ipvsLeft(change: PlannedChange, ports: Ports): Promise<string | undefined> {
  const leaves = change.owned.ipvs && !change.plan.desired.ipvs;
  return leaves ? (await readBack(change, ports)).left : undefined;
}

interface VerifiedIpvs {
  readonly left?: string;
  readonly ipvs?: ObservedIpvs;
}

async function readBack(
  { plan: { desired }, owned, virtual: before }: PlannedChange,
  ports: Ports,
): Promise<VerifiedIpvs> {
  if (!before) return {};
  const { left, virtual } = await verifyVirtual(desired, owned, ports, before);
  if (!virtual) return {};
  await ports.journal.keepDraining(virtual.plan.draining);
  return { ipvs: virtual.observed, ...(left === undefined ? {} : { left }) };
}
