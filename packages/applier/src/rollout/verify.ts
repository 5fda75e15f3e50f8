import { canonicalRule, changedChains, type Family, type TableName } from '@sluice/bundle';
import { limits } from '../limits.ts';
import { chainNames, familiesOf, type NodeState } from './state.ts';
import { ownState } from './own.ts';
import { describeStep, type Plan, plan, type Touched } from './plan.ts';
import type { Kernel } from './ports.ts';

/**
 * Says where the kernel differs from `desired` after a plan was carried out, or undefined.
 *
 * A plan that touched a few chains is verified by reading these back: everything else was verified before, and the next
 * comparison reads all of it again. Anything larger is verified by reading the tables.
 */
export async function unlike(desired: NodeState, change: Plan, kernel: Kernel): Promise<string | undefined> {
  const sysctl = await unlikeSysctl(change, kernel);
  if (sysctl !== undefined) return sysctl;
  for (const touched of change.touched) {
    if (!isSmall(touched)) return unlikeAnywhere(desired, kernel);
  }
  for (const touched of change.touched) {
    const difference = await unlikeChains(touched, kernel);
    if (difference !== undefined) return difference;
  }
  return undefined;
}

function isSmall({ change }: Touched): boolean {
  return (
    changedChains(change).length <= limits.chainsReadSinglyMax && change.insert.length + change.remove.length === 0
  );
}

async function unlikeChains({ family, table, change }: Touched, kernel: Kernel): Promise<string | undefined> {
  const names = changedChains(change);
  const seen = await kernel.observeChains(family, table, names);
  return names
    .map((name) => differs(family, table, name, change.write.get(name), seen.get(name)))
    .find((one) => one !== undefined);
}

function differs(
  family: Family,
  table: TableName,
  name: string,
  wanted: readonly string[] | undefined,
  seen: readonly string[] | undefined,
): string | undefined {
  const spell = (rules: readonly string[] | undefined): string | undefined => rules?.map(canonicalRule).join('\n');
  return spell(wanted) === spell(seen) ? undefined : `${family} ${table} chain ${name}`;
}

async function unlikeAnywhere(desired: NodeState, kernel: Kernel): Promise<string | undefined> {
  const observed = await kernel.observe(familiesOf(desired), desired);
  const now: NodeState = { ...desired, families: ownState(observed, chainNames(desired), desired) };
  const left = plan(now, desired, kernel).steps;
  return left.length === 0 ? undefined : left.map(describeStep).join('; ');
}

async function unlikeSysctl(change: Plan, kernel: Kernel): Promise<string | undefined> {
  for (const step of change.steps) {
    if (step.kind !== 'set-sysctl') continue;
    const value = await kernel.readSysctl(step.key);
    if (value !== step.value) return `sysctl ${step.key} is ${value ?? 'not readable'}, not ${step.value}`;
  }
  return undefined;
}
