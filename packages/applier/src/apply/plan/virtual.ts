import { type IpvsState, type IpvsTimeouts, type Problem, refusal } from '@sluice/netfilter';
import { continueDrains } from '../../ports/ipvs/drain.ts';
import { ipvsSteps, planIpvs } from '../../ports/ipvs/plan.ts';
import {
  emptyIpvs,
  ipvsNames,
  type IpvsOwned,
  type IpvsPlan,
  type IpvsStep,
  joinIpvsNames,
  knownAfter,
  type KnownIpvs,
  type ObservedIpvs,
  ownedNames,
} from '../../ports/ipvs/values.ts';
import { KernelError } from '../../ports/failure.ts';
import type { NodeState, OwnedNames } from '../../ports/node-state.ts';
import type { Ports } from '../../ports/ports.ts';

/** The ports that mode ipvs needs. */
export type VirtualPorts = Pick<Ports, 'kernel' | 'clock' | 'journal' | 'drainMs'>;

/** The plan of mode ipvs, and the observed state that it starts from. */
export interface Virtual {
  readonly observed: ObservedIpvs;
  readonly plan: IpvsPlan;
}

/**
 * Reads mode ipvs from the kernel, and plans the steps to the desired state.
 * @param owned names that are ours besides those of the desired state
 * @param known parts that need not be read
 * @returns undefined if neither the desired state nor `owned` has mode ipvs
 * @throws KernelError if its tools are not installed or fail
 */
export async function planVirtual(
  desired: NodeState,
  owned: OwnedNames,
  { kernel, clock, journal, drainMs }: VirtualPorts,
  known: KnownIpvs = {},
): Promise<Virtual | undefined> {
  if (!desired.ipvs && !owned.ipvs) return undefined;
  if (!kernel.ipvs) throw new KernelError('ipvsadm, ipset and ip', 'one of them is not installed', 'missing');
  const ipvs = withOriginals(desired.ipvs ?? emptyIpvs, journal.originalTimeouts);
  const observed = await kernel.ipvs.observe({ ...(setsTimeouts(ipvs) ? {} : noTimeouts), ...known });
  const ours = ownedNames(joinIpvsNames(owned.ipvs, desired.ipvs && ipvsNames(desired.ipvs)));
  const options = { now: clock.now(), drainMs, excludeCIDRs: desired.ipvs?.excludeCIDRs ?? [] };
  return { observed, plan: planIpvs(observed, ipvs, ours, journal.draining, options) };
}

/** The virtual servers and sets of the desired state that exist and are not ours. */
export function virtualConflicts({ observed }: Virtual, { ipvs }: NodeState, owned: OwnedNames): readonly Problem[] {
  return ipvs ? ipvsConflicts(observed, ipvs, ownedNames(joinIpvsNames(owned.ipvs))) : [];
}

/** Passed as known, so that time-outs are not read: they matter only if a state sets them, or if a kube-proxy may have. */
export const noTimeouts: KnownIpvs = { timeouts: { timeouts: undefined } };

const noneSet: IpvsTimeouts = { tcp: 0, tcpFin: 0, udp: 0 };

/** Whether a state sets time-outs: 0 keeps the value of the kernel. */
export function setsTimeouts({ timeouts }: Pick<IpvsState, 'timeouts'>): boolean {
  const { tcp, tcpFin, udp } = timeouts ?? noneSet;
  return tcp + tcpFin + udp > 0;
}

/**
 * Restores the time-outs that a state does not set to their values from before Sluice: with the next release, with every rollback, and
 * when mode ipvs or Sluice itself is removed.
 */
function withOriginals(state: IpvsState, original: IpvsTimeouts | undefined): IpvsState {
  if (!original) return state;
  const { tcp, tcpFin, udp } = state.timeouts ?? noneSet;
  const timeouts = { tcp: tcp || original.tcp, tcpFin: tcpFin || original.tcpFin, udp: udp || original.udp };
  return { ...state, timeouts };
}

/**
 * Verifies mode ipvs after a plan was carried out. Only the parts that the plan touched are read back; the next scan compares all.
 * @param before the plan; left out: everything is read
 * @returns the missing steps in words as `left`, if there are any, and the plan from the observed state
 */
export async function verifyVirtual(
  desired: NodeState,
  owned: OwnedNames,
  ports: VirtualPorts,
  before?: Virtual,
): Promise<{ readonly left?: string; readonly virtual: Virtual | undefined }> {
  const known = before && knownAfter(ipvsSteps(before.plan), before.observed);
  const virtual = await planVirtual(desired, owned, ports, known);
  const steps = virtual ? ipvsSteps(virtual.plan) : [];
  return steps.length === 0 ? { virtual } : { left: steps.map(firstLine).join('; '), virtual };
}

const firstLine = ({ kind, text }: IpvsStep): string => `${kind} ${text.slice(0, text.indexOf('\n'))}`;

/**
 * Removes draining real servers without connections, and those whose time is over.
 * @returns the number of removed ones
 */
export async function drainVirtual(virtual: Virtual, { kernel, clock, journal }: VirtualPorts): Promise<number> {
  const { draining } = virtual.plan;
  if (draining.length === 0 || !kernel.ipvs) {
    await journal.keepDraining(draining);
    return 0;
  }
  const next = continueDrains(draining, virtual.observed, await kernel.ipvs.connections(), clock.now());
  for (const step of next.steps) await kernel.apply(step);
  await journal.keepDraining(next.draining);
  return draining.length - next.draining.length;
}

/**
 * Finds virtual servers and sets of the desired state that exist and are not ours. Changing them would take a virtual IP from keepalived,
 * or a set from another proxy.
 * @param owned what Sluice made before, according to its state
 * @returns `NODE_SERVERS_NOT_OURS` for virtual servers and for sets, each with the first few names
 */
export function ipvsConflicts(observed: ObservedIpvs, desired: IpvsState, owned: IpvsOwned): readonly Problem[] {
  const servers = [...desired.virtualServers.keys()].filter(
    (key) => observed.foreign.has(key) || (observed.servers.has(key) && !owned.servers.has(key)),
  );
  const sets = [...desired.sets.values()].flatMap(({ name, type, family }) => {
    const has = observed.sets.get(name);
    const isOurs = !has || (owned.sets.has(name) && has.type === type && has.family === family);
    return isOurs ? [] : [name];
  });
  return [...refuse('virtual servers', servers), ...refuse('sets', sets)];
}

function refuse(what: string, names: readonly string[]): readonly Problem[] {
  if (names.length === 0) return [];
  const some = names.slice(0, 3).join(', ') + (names.length > 3 ? `, … (${names.length} in all)` : '');
  return [
    refusal(
      'NODE_SERVERS_NOT_OURS',
      `Cannot apply the bundle: ${what} of its names belong to another program: ${some}`,
      'If kube-proxy made them, stop it and set `takeOver: kube-proxy` in sluiced.yaml, or run `sluiced adopt`; else take the addresses out of the bundle, or out of the other program',
    ),
  ];
}
