import { plan, planCutOver } from '../plan/plan.ts';
import { planInPlace } from '../plan/transaction-plan.ts';
import { adaptDesired, ownState } from '../plan/ownership.ts';
import { hasServers, readOtherPlanes } from '../plan/other-planes.ts';
import { chainNames, familyNames, type NodeState, type Observed, tableOf } from '../../ports/node-state.ts';
import type { Ports } from '../../ports/ports.ts';
import type { NodePlane } from './plane.ts';

/** What data planes share in which the kernel holds one release at a time, and no name identifies a content. */
export const inPlace: Pick<
  NodePlane,
  | 'hasSwitch'
  | 'hasOwnTable'
  | 'failsHarmlessly'
  | 'flipOf'
  | 'planRelease'
  | 'planUpdate'
  | 'planNewerEndpoints'
  | 'missing'
> = {
  hasSwitch: false,
  hasOwnTable: false,
  failsHarmlessly: false,
  flipOf: () => 'ordered',
  planRelease: ({ now, desired }, _flip, options, otherPlanes) => planInPlace(now, desired, options, otherPlanes),
  planUpdate: ({ now, desired }, options, otherPlanes) => planInPlace(now, desired, options, otherPlanes),
  planNewerEndpoints: ({ afterCutOver: before }, { afterCutOver: after }, options, { virtual, ...others }) =>
    // Virtual servers that are to go are left as they are until then.
    planCutOver(before, after, options, virtual && hasServers(after) ? { ...others, virtual } : others),
  missing: async () => undefined,
};

/** Whether the kernel holds a whole state, except sysctls. */
export async function showsExactly(observed: Observed, state: NodeState, ports: Ports): Promise<boolean> {
  // A state without rules would match any kernel.
  if (familyNames.every((family) => tableOf(state, family, 'nat').chains.size === 0)) return false;
  const owned = chainNames(state);
  const desired = adaptDesired(state, observed, owned, ports.kernel);
  const otherPlanes = await readOtherPlanes(desired, owned, ports, desired.nft);
  const now: NodeState = { ...desired, families: ownState(observed, owned, desired) };
  return plan(now, desired, ports.kernel, otherPlanes).steps.length === 0;
}
