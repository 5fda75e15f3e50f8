import type { ReconcileParts, PutRequest } from './parts.ts';
import { isRefusal } from '../admission/admit.ts';
import { messageOf } from '../message.ts';
import { stepsOf } from '../plan/transaction-plan.ts';
import type { Outcome } from '../ports/outcome.ts';
import type { Refusal } from '../ports/refusal.ts';
import type { Offers, ProbationOffers } from '../transaction/offers.ts';
import { waitMs } from '../endpoints/last-endpoint-delay.ts';
import { isStale } from './changes.ts';
import { type Classified, classify } from './classify.ts';
import { earlyStep, type EarlyTried } from './early-endpoints.ts';
import { afterRelease } from './endpoint-rollback.ts';
import { delayOf, mustWait } from './gate.ts';
import type { PlannedChange } from '../transaction/planned-change.ts';
import { VerifiedAnswers } from '../transaction/verified-answers.ts';

/**
 * Brings the kernel to the state of a bundle, or refuses it.
 *
 * ```
 * admit             the bundle becomes the state of this node
 * classify          release or endpoint update; what keys for endpoints may not change; quarantine; removals that are held
 * early endpoints   a part that need not wait for the rest goes in; the rest starts again from the top, a change of its own
 * gate              the last-endpoint delay; releases per hour; the back-off after failures
 * transact          see `transaction`
 * ```
 *
 * A change is admitted and linked once. A second round follows an early part, or a plan from rules that are out of date. Where a removal is
 * held, all of it begins again with what else the bundle changes.
 */
export async function reconcile(request: PutRequest, parts: ReconcileParts): Promise<Outcome> {
  const outcome = await bring(request, parts);
  const held = outcome.kind === 'refused' && outcome.refusal.emptied ? outcome.refusal : undefined;
  // The parts of a signed release belong together.
  if (!held?.emptied || request.onlyEndpoints || request.said.release) return outcome;
  const files = await parts.early.withLost(request.files, held.emptied);
  if (!files) return outcome;
  const rest = await bring({ ...request, files }, { ...parts, removals: parts.removals.ofRest() });
  if (rest.kind === 'confirmed' || rest.kind === 'same') return outcome;
  if (rest.kind !== 'refused') return rest;
  // What is left is a removal all the same, because Services came to the addresses of others.
  if (rest.refusal.emptied) return outcome;
  return { kind: 'refused', refusal: { ...rest.refusal, problems: [...rest.refusal.problems, ...held.problems] } };
}

async function bring(request: PutRequest, parts: ReconcileParts): Promise<Outcome> {
  const { changes, early, removals } = parts;
  const tried: EarlyTried = { parts: new Set(), isSplit: false, outcome: undefined };
  let baseline: VerifiedAnswers | Refusal | undefined;
  for (let isRetry = false; ; ) {
    const classified = await classify(request, parts, isRetry);
    if (classified.kind === 'refused') return classified;
    const { bundle, scope } = classified;
    if (classified.kind === 'change' && !baseline) {
      baseline = await takeBaseline(classified.change, request, parts);
      // What was decided on other rules is decided again.
      if (baseline instanceof VerifiedAnswers && baseline.isLater) continue;
    }
    const part = await earlyStep(early, request.files, bundle, scope, tried);
    if (part?.kind === 'held' || part?.kind === 'pending') return part;
    if (part) continue;
    if (classified.kind === 'barred') return { kind: 'refused', refusal: classified.refusal };
    const { change } = classified;
    const stop = gate(classified, tried, request, parts);
    if (stop) return stop;
    if (baseline && !(baseline instanceof VerifiedAnswers)) return { kind: 'refused', refusal: baseline };
    const offers = forProbation(request.offers, parts);
    const ending = await changes.transact(change, { offers, baseline, isRetry });
    early.learn(request.files, bundle, ending);
    // A removal that has stood is over with that: the next one is held as long.
    if (ending.outcome.kind === 'confirmed') removals.forget();
    if (!isStale(ending) || isRetry) return baseline ? afterRelease(ending, baseline, parts) : ending.outcome;
    isRetry = true;
  }
}

/** Why a change is not made, or not yet; undefined: it is made now. */
function gate(
  { bundle, change, waits }: Extract<Classified, { kind: 'change' }>,
  { isSplit, outcome }: EarlyTried,
  { files, byHand, said }: PutRequest,
  { ports, changes, early, releasesPerHour }: ReconcileParts,
): Outcome | undefined {
  const waitsMs = waitMs(waits, isSplit);
  if (waitsMs > 0) return waitingOutcome(outcome, change, waitsMs);
  const { from, plan } = change;
  if (stepsOf(plan).length === 0 && bundle.version === from.version) {
    changes.rememberTables(plan.desired);
    early.activated(files, from);
    return { kind: 'same', generation: from };
  }
  const refusal = byHand ? undefined : mustWait(change, releasesPerHour, ports, said.isUrgent);
  return refusal && { kind: 'refused', refusal };
}

/** Runs the probes before any part of a release is in the kernel: a probe that its early endpoints break must count against it. */
async function takeBaseline(
  change: PlannedChange,
  { byHand, said }: PutRequest,
  { ports, keeper, releasesPerHour }: ReconcileParts,
): Promise<VerifiedAnswers | Refusal | undefined> {
  if (change.changeKind !== 'release') return undefined;
  if (!byHand && delayOf(change, releasesPerHour, ports, said.isUrgent) !== undefined) return undefined;
  return VerifiedAnswers.take(keeper, ports);
}

/** Bundles that arrive during probation, checked like every bundle. */
function forProbation(offers: Offers, { ports, changes, bounds }: ReconcileParts): ProbationOffers {
  return {
    arrival: () => offers.arrival(),
    isEnding: () => offers.isEnding?.() === true,
    take: async () => {
      try {
        const offered = await offers.look();
        const bundle = offered && (await changes.admit(offered.files));
        if (!bundle || isRefusal(bundle)) return undefined;
        return offered.onlyEndpoints && bounds.refuse(bundle) ? undefined : bundle;
      } catch (error) {
        // A bundle that cannot be read must not end the probation of another one; it is read again afterwards.
        ports.report('endpoints-not-taken', { because: messageOf(error) });
        return undefined;
      }
    },
  };
}

/**
 * The outcome of a change that waits for the last-endpoint delay.
 * @param earlyEndpoints the outcome of the part that went in early; undefined: there was none
 */
function waitingOutcome(earlyEndpoints: Outcome | undefined, { from }: PlannedChange, waitsMs: number): Outcome {
  if (!earlyEndpoints) return { kind: 'same', generation: from, waitsMs };
  return earlyEndpoints.kind === 'confirmed' || earlyEndpoints.kind === 'same'
    ? { ...earlyEndpoints, waitsMs }
    : earlyEndpoints;
}
