import type { PartialDecision } from '../partial/decide.ts';
import { readOtherPlanes } from '../plan/other-planes.ts';
import { flowChange, pendingFlows } from '../plan/flows.ts';
import { nodePlaneOf } from '../planes/planes.ts';
import type { NodeState } from '../../ports/node-state.ts';
import type { Ports } from '../../ports/ports.ts';
import { forgetAfter } from './forgetting.ts';
import type { PlannedChange } from './planned-change.ts';
import { carryOut } from './restore.ts';

/**
 * Rolls single Services of a release on probation back: one transaction removes their frontends from the overlay, so that their packets
 * meet the old rules, which were there all the time.
 *
 * ```
 * offer     the partial release is written: a crash from here on leads to the old generation, and recovery knows both releases
 * remove    the overlay of these Services; what only it led to goes 50 ms later
 * forget    connections that only the release had for these Services; a deleted entry's next packet meets the old rules
 * accept    the open transaction leads to the partial release from here on; the commit record decides, as for every release
 * ```
 *
 * @returns the change without these Services
 * @throws if that is not possible, or the kernel or the disk does not take it: then all of the release must be rolled back
 */
export async function rollBackServices(
  before: PlannedChange,
  { bundle, services }: Extract<PartialDecision, { kind: 'partial' }>,
  ports: Ports,
): Promise<PlannedChange> {
  const { journal, report } = ports;
  const desired = desiredWithout(before.plan.desired, bundle.state);
  const otherPlanes = await readOtherPlanes(desired, before.owned, ports, before.plan.afterCutOver.nft, { nft: true });
  if (!otherPlanes.nft || otherPlanes.nft.mend.length > 0)
    throw new Error('the table is not known to hold the release');
  const plan = nodePlaneOf(desired).planRelease({ now: before.now, desired }, 'switch', ports.kernel, otherPlanes);
  const flows = flowChange(before.now, desired);
  await journal.offer({
    from: before.from.state,
    to: bundle.state,
    version: bundle.version,
    partial: bundle.partial,
    flows,
  });
  await carryOut(plan.stage, ports);
  const left = before.plan.desired;
  await forgetAfter([...flowChange(desired, left).fresh, ...pendingFlows(desired, left)], ports);
  const from = await journal.accept();
  report('services-rolled-back', { services, version: bundle.version, because: bundle.partial?.because });
  return { ...before, from, bundle, plan, flows };
}

/** What the kernel shall hold differs from a bundle's state by what this node adds to it. */
const desiredWithout = (desired: NodeState, { nft, services }: NodeState): NodeState => ({
  ...desired,
  ...(nft ? { nft } : {}),
  ...(services ? { services } : {}),
});
