import type { IpvsState, IpvsTimeouts } from '@sluice/bundle';
import { ipvsSteps, planIpvs } from '../ipvs/plan.ts';
import { continueDrains } from '../ipvs/drain.ts';
import {
  type IpvsKnown,
  type IpvsPlan,
  ipvsNames,
  type IpvsSeen,
  type IpvsStep,
  joinIpvsNames,
  knownAfter,
  nothing,
  ownedNames,
} from '../ipvs/values.ts';
import { KernelError, type Ports } from './ports.ts';
import type { ChainNames, NodeState } from './state.ts';

/** What the transaction needs for mode ipvs. */
export type VirtualPorts = Pick<Ports, 'kernel' | 'clock' | 'journal' | 'drainMs'>;

/** Mode ipvs on the way to a desired state. */
export interface Virtual {
  readonly seen: IpvsSeen;
  readonly plan: IpvsPlan;
}

/**
 * What is to be done for mode ipvs.
 * @param owned what is ours besides the desired state
 * @param known what the kernel was seen to hold; for the rest it is asked
 * @returns undefined where neither the desired state nor anything of ours is in mode ipvs
 */
export async function lookVirtual(
  desired: NodeState,
  owned: ChainNames,
  { kernel, clock, journal, drainMs }: VirtualPorts,
  known: IpvsKnown = {},
): Promise<Virtual | undefined> {
  if (!desired.ipvs && !owned.ipvs) return undefined;
  if (!kernel.ipvs) throw new KernelError('ipvsadm, ipset and ip', 'one of them is not installed');
  const wanted = withOriginals(desired.ipvs ?? nothing, journal.originalTimeouts);
  const seen = await kernel.ipvs.observe({ ...(setsTimeouts(wanted) ? {} : noTimeouts), ...known });
  const ours = ownedNames(joinIpvsNames(owned.ipvs, desired.ipvs && ipvsNames(desired.ipvs)));
  const options = { now: clock.now(), drainMs, excludeCIDRs: desired.ipvs?.excludeCIDRs ?? [] };
  return { seen, plan: planIpvs(seen, wanted, ours, journal.draining, options) };
}

/** Time-outs count only where a desired state sets them, or a kube-proxy may have. */
export const noTimeouts: IpvsKnown = { timeouts: { timeouts: undefined } };

const noneSet: IpvsTimeouts = { tcp: 0, tcpFin: 0, udp: 0 };

/** Whether a state asks for time-outs of its own: 0 keeps what the kernel has. */
export function setsTimeouts({ timeouts }: Pick<IpvsState, 'timeouts'>): boolean {
  const { tcp, tcpFin, udp } = timeouts ?? noneSet;
  return tcp + tcpFin + udp > 0;
}

/**
 * Time-outs that a state does not ask for are what they were before Sluice first set them: on the way to the next release, on every way
 * back, and when mode ipvs or Sluice itself goes.
 */
function withOriginals(state: IpvsState, original: IpvsTimeouts | undefined): IpvsState {
  if (!original) return state;
  const { tcp, tcpFin, udp } = state.timeouts ?? noneSet;
  const timeouts = { tcp: tcp || original.tcp, tcpFin: tcpFin || original.tcpFin, udp: udp || original.udp };
  return { ...state, timeouts };
}

/**
 * What is left to be done after a plan was carried out, in words; undefined when nothing is. Only what the plan touched is read back:
 * the rest was seen before it, and the next scan compares all of it again.
 * @param before what was planned; left out: everything is read
 */
export async function leftVirtual(
  desired: NodeState,
  owned: ChainNames,
  ports: VirtualPorts,
  before?: Virtual,
): Promise<{ readonly left?: string; readonly virtual: Virtual | undefined }> {
  const known = before && knownAfter(ipvsSteps(before.plan), before.seen);
  const virtual = await lookVirtual(desired, owned, ports, known);
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
