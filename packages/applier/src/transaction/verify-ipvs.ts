import type { ObservedIpvs } from '../ipvs/values.ts';
import { verifyVirtual } from '../plan/virtual.ts';
import type { Ports } from '../ports/ports.ts';
import type { PlannedChange } from './planned-change.ts';

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
