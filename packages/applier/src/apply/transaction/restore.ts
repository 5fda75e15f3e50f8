import type { Family } from '@sluice/netfilter';
import { StillDiffers } from '../../ports/failure.ts';
import { adaptDesired, ownState } from '../plan/ownership.ts';
import { describeStep, type Plan, plan } from '../plan/plan.ts';
import { orReport } from '../report-failure.ts';
import type { Ports } from '../../ports/ports.ts';
import {
  type OwnedNames,
  chainNames,
  familiesOf,
  familyNames,
  isTree,
  joinNames,
  type NodeState,
} from '../../ports/node-state.ts';
import { leakedChains } from '../plan/side-by-side.ts';
import { applyStep } from '../plan/nftables.ts';
import { readOtherPlanes } from '../plan/other-planes.ts';

/**
 * Makes the kernel hold `desired`, from whatever state it is in, and verifies the result.
 * @param owned names that are ours besides those of the desired state
 * @param part only the rules of one family, where the kernel refuses the whole; or all. What a release has left beside them stays
 * @returns the desired state as this kernel can have it
 * @throws KernelError, StillDiffers
 */
export async function restore(
  desired: NodeState,
  owned: OwnedNames,
  ports: Pick<Ports, 'kernel' | 'clock' | 'report' | 'journal' | 'drainMs'>,
  part?: Family | 'all',
): Promise<NodeState> {
  const { kernel } = ports;
  const family = part === 'all' ? undefined : part;
  const known = joinNames(owned, chainNames(desired));
  const families = familiesOf({ families: desired.families }).concat(
    // In mode nftables there may be no tool to read a family with.
    familyNames.filter((one) => !desired.families[one] && hasNames(owned[one])),
  );
  const look = async (): Promise<{ adapted: NodeState; change: Plan }> => {
    const observed = await kernel.observe(families, desired);
    // A rollback that the disk did not take down has left chains of a generation that nothing points to.
    const names = isTree(desired) && !part ? joinNames(known, leakedChains(observed, desired)) : known;
    const adapted = adaptDesired(desired, observed, names, kernel);
    // First: reading mode ipvs loads its module, and with it come its sysctls.
    const otherPlanes = await readOtherPlanes(adapted, names, ports, adapted.nft, family ? { family } : {});
    const now = await withSysctls({ families: ownState(observed, names, adapted), sysctls: new Map() }, adapted, ports);
    // A disk that takes no write must not prevent the rules: the next scan writes down what drains.
    const draining = otherPlanes.virtual?.plan.draining;
    if (draining) await orReport('draining-not-written', ports, () => ports.journal.keepDraining(draining));
    return { adapted, change: plan(now, adapted, kernel, otherPlanes) };
  };
  const first = await look();
  if (first.change.steps.length === 0) return first.adapted;
  await carryOut(first.change, ports);
  const second = await look();
  if (second.change.steps.length === 0) return second.adapted;
  throw new StillDiffers(second.change.steps.map(describeStep));
}

const hasNames = (names: OwnedNames[Family]): boolean =>
  names !== undefined && names.filter.length + names.nat.length > 0;

/** The state, with the original values of the sysctls that the previous state set and this one does not. */
export function withDropped(state: NodeState, before: NodeState, originals: NodeState['sysctls']): NodeState {
  const dropped = [...originals].filter(([key]) => before.sysctls.has(key) && !state.sysctls.has(key));
  return dropped.length === 0 ? state : { ...state, sysctls: new Map([...dropped, ...state.sysctls]) };
}

/** The state, with the present values of all sysctls of `desired`, and the present hash size. */
export async function withSysctls(
  state: NodeState,
  desired: NodeState,
  { kernel }: Pick<Ports, 'kernel'>,
): Promise<NodeState> {
  const sysctls = new Map(state.sysctls);
  for (const key of desired.sysctls.keys()) {
    const value = await kernel.readSysctl(key);
    if (value === undefined) sysctls.delete(key);
    else sysctls.set(key, value);
  }
  const size = desired.conntrackHashSize === undefined ? undefined : await kernel.readHashSize();
  return { families: state.families, sysctls, ...(size === undefined ? {} : { conntrackHashSize: size }) };
}

/** Applies the steps in order. @throws KernelError at the first one that the kernel does not take */
export async function carryOut(
  change: Plan,
  { kernel, clock, report }: Pick<Ports, 'kernel' | 'clock' | 'report'>,
): Promise<void> {
  for (const step of change.steps) {
    if ('pauseMs' in step && step.pauseMs !== undefined) await clock.sleep(step.pauseMs);
    report('step', { step: describeStep(step) });
    await applyStep(kernel, step);
  }
}

/** Reading the kernel was interrupted for more urgent work. Nothing was changed. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';

  constructor() {
    super('reading the kernel was interrupted for more urgent work');
  }
}

/** @returns the result of `work`, or `interrupted`. @throws every other error of `work` */
export async function orInterrupted<T>(work: Promise<T>): Promise<T | 'interrupted'> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof Interrupted) return 'interrupted';
    throw error;
  }
}
