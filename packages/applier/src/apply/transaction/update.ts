import { tableNames } from '@sluice/netfilter';
import { carryOut } from './restore.ts';
import { flowChange } from '../plan/flows.ts';
import { forgetAfter } from './forgetting.ts';
import { messageOf } from '../../message.ts';
import { type Plan, plan } from '../plan/plan.ts';
import type { Ports } from '../../ports/ports.ts';
import { familyNames, type NodeState, tableOf } from '../../ports/node-state.ts';
import { readOtherPlanes } from '../plan/other-planes.ts';
import { overlayEndpoints } from '../endpoints/overlay-endpoints.ts';
import { changeKindOf } from '../endpoints/change-kind.ts';
import { updateDifference, verifyIpvs } from './verify.ts';
import type { PlannedChange } from './planned-change.ts';
import type { VersionedState } from '../../ports/journal.ts';
import { nodePlaneOf } from '../planes/planes.ts';

/** Newer endpoints during probation: the change as it is with them, and the steps that put them in. */
interface ProbationUpdate {
  readonly change: PlannedChange;
  readonly steps: Plan;
}

/**
 * Plans newer endpoints for a release in probation. They go into both programs, each within the bounds of its own release, so that a
 * rollback leads to the old release with the newest endpoints. Where the kernel holds one program (layout `flat`, mode ipvs), they go
 * into that one, and the rollback brings them along.
 * @param offered the bundle that arrived; of a newer release only its endpoints are taken
 * @returns undefined if no endpoint of either program changes
 */
export async function updateOf(
  change: PlannedChange,
  offered: VersionedState,
  ports: Ports,
): Promise<ProbationUpdate | undefined> {
  const { from, bundle, owned } = change;
  // Generation 0, the rules before Sluice, is never changed.
  const isOurs = from.number > 0;
  const state = overlayEndpoints(bundle.state, offered.state);
  const old = isOurs ? overlayEndpoints(from.state, offered.state) : from.state;
  if (state === bundle.state && old === from.state) return undefined;
  const now = isOurs ? following(change.now, from.state, old, offered.state) : change.now;
  const desired = overlayEndpoints(change.plan.desired, offered.state);
  const otherPlanes = await readOtherPlanes(desired, owned, ports, change.plan.afterCutOver.nft, { nft: true });
  const { virtual } = otherPlanes;
  const plane = nodePlaneOf(desired);
  const next = plane.planRelease({ now, desired }, change.plan.flip, ports.kernel, otherPlanes);
  const steps = plane.planNewerEndpoints(change.plan, next, ports.kernel, otherPlanes);
  const isWhole = changeKindOf(bundle.state, offered.state) === 'endpoints';
  const { version, partial } = isWhole ? offered : bundle;
  const flows = flowChange({ ...now, ...(old.ipvs ? { ipvs: old.ipvs } : {}) }, desired);
  return {
    change: {
      ...change,
      from: { ...from, state: old },
      bundle: { version, state, partial },
      now,
      plan: next,
      flows,
      ...(virtual ? { virtual } : {}),
    },
    steps,
  };
}

/** The state of the kernel with the newest endpoints. If its tables are those of `before`, they become those of `after`. */
function following(now: NodeState, before: NodeState, after: NodeState, offered: NodeState): NodeState {
  const isSame = familyNames.every((family) =>
    tableNames.every((table) => tableOf(now, family, table) === tableOf(before, family, table)),
  );
  if (now.nft && after.nft) return { ...now, nft: after.nft };
  return isSame && !now.ipvs ? { ...now, families: after.families } : overlayEndpoints(now, offered);
}

/**
 * Puts newer endpoints into both programs during probation. They need no probation of their own; the kernel is verified to hold them.
 * They are not rehearsed: a rehearsal may outlast the time-out of the switch, and a good release would be rolled back.
 * @returns the change with them; the unchanged one if they need a rehearsal or could not be written down (nothing was touched then)
 * @throws if the kernel does not take them: the state of the kernel is unknown then
 */
export async function takeUpdate(
  before: PlannedChange,
  { change, steps }: ProbationUpdate,
  ports: Ports,
): Promise<PlannedChange> {
  const { journal, kernel, rehearsal, report } = ports;
  const { from, bundle, flows } = change;
  // The old program gets new rules, too: at once, or when a rollback puts it in.
  const back = plan(before.from.state, from.state, kernel);
  const { ipvs: _ipvs, ...oldTables } = from.state;
  if (
    !rehearsal.isKnown(bundle.state, steps.touched, before.now) ||
    !rehearsal.isKnown(oldTables, back.touched, before.now)
  ) {
    report('endpoints-not-taken', {
      because: 'their rules have new forms, which must be rehearsed after probation',
    });
    return before;
  }
  try {
    await journal.offer({
      from: from.state,
      to: bundle.state,
      version: bundle.version,
      partial: bundle.partial,
      flows,
    });
  } catch (error) {
    report('endpoints-not-taken', { because: messageOf(error) });
    return before;
  }
  await carryOut(steps, ports);
  const difference = (await updateDifference(change.plan, steps, kernel)) ?? (await verifyIpvs(change, ports)).left;
  if (difference !== undefined) throw new Error(`the kernel does not hold the newest endpoints: ${difference}`);
  const active = await journal.accept();
  report('endpoints-updated', { version: bundle.version, steps: steps.steps.length });
  await forgetAfter(flowChange(before.plan.desired, change.plan.desired).old, ports);
  return { ...change, from: active };
}
