import { type AdmittedBundle, isRefusal } from '../admission/admit.ts';
import { endpointsText } from '../endpoints/bounds.ts';
import { decline, type EndpointChange, endpointChanges, printEndpointChanges } from '../endpoints/endpoint-changes.ts';
import { type LastEndpointWaits, noWaits, waitMs } from '../endpoints/last-endpoint-delay.ts';
import { messageOf } from '../../message.ts';
import { stepsOf } from '../plan/transaction-plan.ts';
import type { Generation, VersionedState } from '../../ports/journal.ts';
import type { Outcome } from '../../ports/outcome.ts';
import type { ProbeResult } from '../../ports/probes.ts';
import type { Refusal } from '../../ports/refusal.ts';
import type { Offers, ProbationOffers } from '../transaction/offers.ts';
import type { PlannedChange, TransactionResult } from '../transaction/planned-change.ts';
import { VerifiedAnswers } from '../transaction/verified-answers.ts';
import { type Changes, isStale } from './changes.ts';
import { type EarlyScope, earlyStep, type EarlyTried } from './early-endpoints.ts';
import { beyondEndpoints, delayOf, isMore, mustWait, quarantined, whyQuarantined } from './gate.ts';
import type { PutRequest, ReconcileDependencies } from './parts.ts';

/**
 * Ends a release: endpoints that were declined before a confirmed one are offered again, and a rollback for a failed probe may concern its
 * early endpoints, too.
 */
async function afterRelease(
  { outcome, failed }: TransactionResult,
  baseline: VerifiedAnswers,
  parts: Pick<ReconcileDependencies, 'changes' | 'keeper' | 'ports'>,
): Promise<Outcome> {
  if (outcome.kind === 'confirmed') await decline(new Map(), parts.ports);
  if (outcome.kind !== 'rolled-back' || failed !== 'health') return outcome;
  const { rules } = baseline;
  if (rules.kind === 'generation') return rollBackEndpoints(outcome.because, baseline.before, rules.generation, parts);
  if (rules.kind === 'earlier') return outcome;
  return { ...outcome, because: `${outcome.because}; whether it failed before is not known: ${rules.why}` };
}

/** Puts endpoints in, however many they are. @returns undefined: they were refused */
async function restoreEndpoints(target: VersionedState, changes: Changes): Promise<Outcome | undefined> {
  const change = await changes.decide(target, { changeKind: 'endpoints' });
  return 'problems' in change ? undefined : (await changes.update(change)).outcome;
}

/**
 * Follows the rollback of a release that failed its probes. The node then serves the old release with the newest endpoints, and these
 * may be what broke the probe: they went in early, before probation. So the probes run again, and if they still fail, the changed
 * Services get their old endpoints. If the probes fail with these, too, the newest ones are kept: they are more likely to exist.
 * @param because why the release was rolled back
 * @param answers before any part of it was in the kernel @param generation the rules at that time
 * @returns the outcome `rolled-back` with what became of the endpoints, or `held`
 */
async function rollBackEndpoints(
  because: string,
  answers: readonly ProbeResult[],
  generation: Generation,
  { changes, keeper, ports }: Pick<ReconcileDependencies, 'changes' | 'keeper' | 'ports'>,
): Promise<Outcome> {
  const { journal, declined, report } = ports;
  const rolledBack = (endpoints: string): Outcome => ({ kind: 'rolled-back', because: `${because}; ${endpoints}` });
  const active = journal.active;
  const differing = active?.number === generation.number ? endpointChanges(generation.state, active.state) : [];
  if (!active || differing.length === 0) return { kind: 'rolled-back', because };
  const now = await VerifiedAnswers.take(keeper, ports);
  if ('problems' in now)
    return rolledBack('the newest endpoints stay: another program changes the rules that they are tried on');
  const failed = regressed(answers, now.answers);
  if (failed.length === 0) return rolledBack('the newest endpoints stay: with them the probes pass again');
  report('endpoint-rollback', { probes: failed, endpoints: printEndpointChanges(differing) });
  const restored = await restoreEndpoints({ ...active, state: generation.state }, changes);
  if (restored?.kind === 'held' || restored?.kind === 'pending') return restored;
  const names = failed.join(', ');
  if (restored?.kind !== 'confirmed')
    return rolledBack(`the newest endpoints fail ${names}, too, and the old ones cannot be restored`);
  const then = await VerifiedAnswers.take(keeper, ports);
  if (!('problems' in then) && regressed(answers, then.answers).length === 0) {
    await decline(new Map([...declined.read(), ...differing.map(keyed)]), { declined, report });
    const what = printEndpointChanges(differing.map(reversed));
    return rolledBack(`old endpoints restored, for the newest ones fail ${names}, too: ${what}`);
  }
  const newest = await restoreEndpoints(active, changes);
  return newest?.kind === 'held' || newest?.kind === 'pending'
    ? newest
    : rolledBack(`the newest endpoints stay: ${names} failed with the old ones, too`);
}

/** The probes that passed before and fail now. */
function regressed(before: readonly ProbeResult[], now: readonly ProbeResult[]): readonly string[] {
  const good = new Set(before.filter(({ healthy }) => healthy).map(({ name }) => name));
  return now.filter(({ name, healthy }) => !healthy && good.has(name)).map(({ name }) => name);
}

const reversed = (change: EndpointChange): EndpointChange => ({
  ...change,
  before: change.after,
  after: change.before,
});

const keyed = ({ key, after }: EndpointChange): readonly [string, string] => [key, endpointsText(after)];

/** What may become of a bundle. */
type Classified =
  /** Nothing of it may go in. */
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  /** Its endpoints may go in, the rest is refused. */
  | {
      readonly kind: 'barred';
      /** With its own version, also where the change has that of its release: what was tried of it early is known by that. */
      readonly bundle: AdmittedBundle;
      readonly refusal: Refusal;
      readonly scope: EarlyScope;
    }
  /** All of it may go in, some of it perhaps later. */
  | {
      readonly kind: 'change';
      readonly bundle: AdmittedBundle;
      readonly change: PlannedChange;
      readonly waits: LastEndpointWaits;
      readonly scope: EarlyScope;
    };

/** A bundle with live endpoints has the version of its release: it is the same release with every endpoint. */
function ofRelease(bundle: AdmittedBundle, version: string | undefined): AdmittedBundle {
  if (version === undefined) return bundle;
  const { partial } = bundle;
  return partial ? { ...bundle, partial: { ...partial, of: version } } : { ...bundle, version };
}

/**
 * Admits a bundle, and decides what may become of it.
 * @param isRetry after a plan from rules that were out of date: that failure is not the bundle's, although it may be counted
 */
async function classify(
  { files, byHand, onlyEndpoints, said }: PutRequest,
  { ports, changes, lastEndpointDelay, removals, bounds }: ReconcileDependencies,
  isRetry = false,
): Promise<Classified> {
  const bundle = await changes.admit(files, byHand);
  const forget = (): void => {
    lastEndpointDelay.forget();
    removals.forget();
  };
  if (isRefusal(bundle)) {
    forget();
    return { kind: 'refused', refusal: bundle };
  }
  const named = ofRelease(bundle, said.version);
  const bad = byHand || isRetry ? undefined : whyQuarantined(named, ports);
  if (bad !== undefined) forget();
  const outside = onlyEndpoints ? bounds.refuse(bundle) : undefined;
  if (outside) return { kind: 'refused', refusal: outside };
  const endpoints = { waits: noWaits, withEndpoints: true, isLive: said.version !== undefined };
  if (bad !== undefined) {
    const scope = { ...endpoints, withFirst: !onlyEndpoints };
    return { kind: 'barred', bundle, refusal: quarantined(named.version, bad), scope };
  }
  if (said.onlyEarly) {
    const scope = { ...endpoints, withFirst: true };
    return { kind: 'barred', bundle, refusal: { problems: [], isWaiting: true }, scope };
  }
  const change = await changes.decide(named, { replacesAll: onlyEndpoints });
  const waits = lastEndpointDelay.waits(byHand || 'problems' in change ? {} : change);
  if ('problems' in change) return { kind: 'refused', refusal: change };
  const isRelease = change.changeKind === 'release';
  if (onlyEndpoints && isMore(change)) {
    const scope = { waits: noWaits, withFirst: false, withEndpoints: true };
    return { kind: 'barred', bundle, refusal: beyondEndpoints(bundle.version), scope };
  }
  const held = removals.refuse(change, byHand || said.acceptsRemoval === true);
  if (held) {
    // Services that keep endpoints are served by the newest ones meanwhile.
    const lasting = { ...waits, pending: change.last ?? [] };
    return {
      kind: 'barred',
      bundle,
      refusal: held,
      scope: { waits: lasting, withFirst: !onlyEndpoints, withEndpoints: true },
    };
  }
  const scope = { waits, withFirst: isRelease && !onlyEndpoints, withEndpoints: isRelease };
  return { kind: 'change', bundle, change, waits, scope };
}

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
export async function reconcile(request: PutRequest, parts: ReconcileDependencies): Promise<Outcome> {
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

async function bring(request: PutRequest, parts: ReconcileDependencies): Promise<Outcome> {
  const { changes, early, removals } = parts;
  const tried: EarlyTried = { left: new Set(['split', 'first', 'endpoints']), isSplit: false, outcome: undefined };
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
  { change, waits }: Extract<Classified, { kind: 'change' }>,
  { isSplit, outcome }: EarlyTried,
  { files, byHand, said }: PutRequest,
  { ports, changes, early, releasesPerHour }: ReconcileDependencies,
): Outcome | undefined {
  const waitsMs = waitMs(waits, isSplit);
  if (waitsMs > 0) return waitingOutcome(outcome, change, { waitsMs, leaving: waits.pending });
  const { from, plan } = change;
  if (stepsOf(plan).length === 0 && change.bundle.version === from.version) {
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
  { ports, keeper, releasesPerHour }: ReconcileDependencies,
): Promise<VerifiedAnswers | Refusal | undefined> {
  if (change.changeKind !== 'release') return undefined;
  if (!byHand && delayOf(change, releasesPerHour, ports, said.isUrgent) !== undefined) return undefined;
  return VerifiedAnswers.take(keeper, ports);
}

/** Bundles that arrive during probation, checked like every bundle. */
function forProbation(offers: Offers, { ports, changes, bounds }: ReconcileDependencies): ProbationOffers {
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
function waitingOutcome(
  earlyEndpoints: Outcome | undefined,
  { from }: PlannedChange,
  wait: { readonly waitsMs: number; readonly leaving: readonly string[] },
): Outcome {
  if (!earlyEndpoints) return { kind: 'same', generation: from, ...wait };
  return earlyEndpoints.kind === 'confirmed' || earlyEndpoints.kind === 'same'
    ? { ...earlyEndpoints, ...wait }
    : earlyEndpoints;
}
