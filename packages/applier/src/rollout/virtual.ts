import { ipvsSteps, planIpvs } from '../ipvs/plan.ts';
import { continueDrains } from '../ipvs/drain.ts';
import {
  type IpvsPlan,
  ipvsNames,
  type IpvsSeen,
  type IpvsStep,
  joinIpvsNames,
  nothing,
  ownedNames,
} from '../ipvs/values.ts';
import { KernelError, type Ports } from './ports.ts';
import type { ChainNames, NodeState } from './state.ts';

/** What the transaction needs for mode ipvs. */
export type VirtualPorts = Pick<Ports, 'kernel' | 'clock' | 'journal' | 'drainMs'>;

/** Mode ipvs on the way to a goal. */
export interface Virtual {
  readonly seen: IpvsSeen;
  readonly plan: IpvsPlan;
}

/**
 * What is to be done for mode ipvs.
 * @param owned what is ours besides the goal
 * @param known what the kernel was seen to hold; left out: it is asked
 * @returns undefined where neither the goal nor anything of ours is in mode ipvs
 */
export async function lookVirtual(
  goal: NodeState,
  owned: ChainNames,
  { kernel, clock, journal, drainMs }: VirtualPorts,
  known?: IpvsSeen,
): Promise<Virtual | undefined> {
  if (!goal.ipvs && !owned.ipvs) return undefined;
  if (!kernel.ipvs) throw new KernelError('ipvsadm, ipset and ip', 'one of them is not installed');
  const seen = known ?? (await kernel.ipvs.observe());
  const ours = ownedNames(joinIpvsNames(owned.ipvs, goal.ipvs && ipvsNames(goal.ipvs)));
  const options = { now: clock.now(), drainMs, excludeCIDRs: goal.ipvs?.excludeCIDRs ?? [] };
  return { seen, plan: planIpvs(seen, goal.ipvs ?? nothing, ours, journal.draining, options) };
}

/** What is left to be done after a plan was carried out, in words; undefined when nothing is. */
export async function leftVirtual(
  goal: NodeState,
  owned: ChainNames,
  ports: VirtualPorts,
): Promise<{ readonly left?: string; readonly virtual: Virtual | undefined }> {
  const virtual = await lookVirtual(goal, owned, ports);
  const steps = virtual ? ipvsSteps(virtual.plan) : [];
  return steps.length === 0 ? { virtual } : { left: steps.map(firstLine).join('; '), virtual };
}

const firstLine = ({ kind, text }: IpvsStep): string => `${kind} ${text.slice(0, text.indexOf('\n'))}`;

/**
 * Goes on with real servers that drain: those without connections leave, and those whose time is over.
 * @returns how many left
 */
export async function drainVirtual(virtual: Virtual, { kernel, clock, journal }: VirtualPorts): Promise<number> {
  const { draining } = virtual.plan;
  if (draining.length === 0 || !kernel.ipvs) {
    await journal.keepDraining(draining);
    return 0;
  }
  const next = continueDrains(draining, virtual.seen, await kernel.ipvs.connections(), clock.now());
  for (const step of next.steps) await kernel.apply(step);
  await journal.keepDraining(next.draining);
  return draining.length - next.draining.length;
}
