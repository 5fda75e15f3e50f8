import { tableNames } from '@sluice/bundle';
import { carryOut } from '../rollout/carry-out.ts';
import { flowChange } from '../rollout/flows.ts';
import { forgetAfter } from '../rollout/forgetting.ts';
import { messageOf } from '../rollout/message.ts';
import { type Plan, plan, tablePlan } from '../rollout/plan.ts';
import type { Ports } from '../rollout/ports.ts';
import { familyNames, type NodeState, tableOf } from '../rollout/state.ts';
import { lookVirtual } from '../rollout/virtual.ts';
import { isTree } from './entries.ts';
import { overlayEndpoints } from './overlay-endpoints.ts';
import { changeKindOf } from './change-kind.ts';
import { updateDiffers } from './roots-hold.ts';
import { type Change, type Target, virtualLeft } from './transaction.ts';
import { probationWay } from './way.ts';

/** Newer endpoints for a trial: the change as it is from then on, and what leads there. */
export interface ProbationUpdate {
  readonly change: Change;
  readonly steps: Plan;
}

/**
 * What newer endpoints mean for a release on trial: they go into both programs, each within the bounds of its own release, so the
 * way back leads to the old release with the newest endpoints. Where the kernel holds one program alone (layout `flat`, mode ipvs),
 * they go into that one, and the way back carries them.
 * @param offered what arrived; of a newer release only its endpoints are taken
 * @returns undefined when neither of the two takes anything
 */
export async function updateOf(change: Change, offered: Target, ports: Ports): Promise<ProbationUpdate | undefined> {
  const { from, bundle, way, owned } = change;
  // What stood before Sluice comes back as it was.
  const isOurs = from.number > 0;
  const state = overlayEndpoints(bundle.state, offered.state);
  const old = isOurs ? overlayEndpoints(from.state, offered.state) : from.state;
  if (state === bundle.state && old === from.state) return undefined;
  const now = isOurs ? following(change.now, from.state, old, offered.state) : change.now;
  const desired = overlayEndpoints(way.desired, offered.state);
  const virtual = await lookVirtual(desired, owned, ports);
  const next = probationWay(now, desired, way.flip, ports.kernel, virtual?.plan);
  const because = 'newer endpoints';
  const steps = isTree(desired)
    ? tablePlan(next.turned, { from: way.turned, tables: ['nat', 'filter'], because }, ports.kernel)
    : plan(way.turned, next.turned, ports.kernel, virtual?.plan);
  const isWhole = changeKindOf(bundle.state, offered.state) === 'endpoints';
  const version = isWhole ? offered.version : bundle.version;
  const flows = flowChange({ ...now, ...(old.ipvs ? { ipvs: old.ipvs } : {}) }, desired);
  return {
    change: {
      ...change,
      from: { ...from, state: old },
      bundle: { version, state },
      now,
      way: next,
      flows,
      ...(virtual ? { virtual } : {}),
    },
    steps,
  };
}

/** What the kernel holds with the newest endpoints: where it has the tables of a state, it gets those of the state with these. */
function following(now: NodeState, before: NodeState, after: NodeState, offered: NodeState): NodeState {
  const isSame = familyNames.every((family) =>
    tableNames.every((table) => tableOf(now, family, table) === tableOf(before, family, table)),
  );
  return isSame && !now.ipvs ? { ...now, families: after.families } : overlayEndpoints(now, offered);
}

/**
 * Puts newer endpoints into both programs of a trial. They need no trial of their own: it is made sure that the kernel holds them.
 * Nothing is rehearsed meanwhile: that may take longer than the switch holds, and a good release would be lost.
 * @returns the change as it is from then on; the same one when they must be rehearsed or could not be written down, and nothing was
 *   touched then
 * @throws when the kernel does not take them: what it holds is not known then
 */
export async function takeUpdate(before: Change, { change, steps }: ProbationUpdate, ports: Ports): Promise<Change> {
  const { journal, kernel, rehearsal, report } = ports;
  const { from, bundle, way, flows } = change;
  // The old program gets rules too: at once, or when the way back puts it in.
  const back = plan(before.from.state, from.state, kernel);
  const { ipvs: _stood, ...oldTables } = from.state;
  if (!rehearsal.isKnown(bundle.state, steps, before.now) || !rehearsal.isKnown(oldTables, back, before.now)) {
    report('endpoints-not-taken', {
      because: 'their rules are of new forms, which are rehearsed when the trial is over',
    });
    return before;
  }
  try {
    await journal.offer({ from: from.state, to: bundle.state, version: bundle.version, flows });
  } catch (error) {
    report('endpoints-not-taken', { because: messageOf(error) });
    return before;
  }
  await carryOut(steps, ports);
  const difference =
    (await updateDiffers(way, steps, kernel)) ?? (way.desired.ipvs && (await virtualLeft(change, ports)).left);
  if (difference !== undefined) throw new Error(`the kernel does not hold the newest endpoints: ${difference}`);
  const active = await journal.accept();
  report('endpoints-updated', { version: bundle.version, steps: steps.steps.length });
  await forgetAfter(flowChange(before.way.desired, way.desired).old, ports);
  return { ...change, from: active };
}
