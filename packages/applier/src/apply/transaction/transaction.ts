import { refusal } from '@sluice/netfilter';
import { isOfSurroundings, RehearsalError } from '../../ports/failure.ts';
import {
  firstDifference,
  foreignDifference,
  takenFromIpvs,
  untouchedDifference,
  updateDifference,
  verifyIpvs,
} from './verify.ts';
import type { PlannedChange, TransactionResult, RollbackReason } from './planned-change.ts';
import { carryOut } from './restore.ts';
import type { ObservedIpvs } from '../../ports/ipvs/values.ts';
import { forgetAfter } from './forgetting.ts';
import type { Fault, Flip } from '../../ports/journal.ts';
import type { Ports } from '../../ports/ports.ts';
import type { ProbeResult } from '../../ports/probes.ts';
import { describePartial } from '../../ports/outcome.ts';
import type { Refusal } from '../../ports/refusal.ts';
import { messageOf } from '../../message.ts';
import { nodePlaneOf } from '../planes/planes.ts';
import { rollBack } from './roll-back.ts';
import { Deadman } from './deadman.ts';
import { endpointChanges, printEndpointChanges } from '../endpoints/endpoint-changes.ts';
import { finish } from './finish.ts';
import { quarantinedAfter } from '../partial/leave-out.ts';
import type { ProbationOffers } from './offers.ts';
import { foreign, type ProbationRules, ProbationWatch } from './probation.ts';
import type { VerifiedAnswers } from './verified-answers.ts';

/**
 * One transaction: brings the kernel from its observed state to the desired one, or rolls it back.
 *
 * ```
 * rehearse    load the rules in a scratch namespace                            on failure: refused, nothing was touched
 * baseline    what the probes answered before any part of it (`VerifiedAnswers`): only regressions count later
 * begin       write the intent to the journal                                  a crash from here on leads to the old program
 * stage       new chains beside the old ones; no packet meets them
 *             read back: all of it is in the kernel; on a node that served no Service before only after the cut-over
 * cut over    filter's switch, then nat's, each with a time-out                without a process the kernel rolls back by itself
 * probation   invariants and probes; each good round renews the switch; newer endpoints go into both programs;
 *             with `perService` single Services may return to the old program
 * commit      one write and fsync: the only decision                           a crash from here on leads to the new program
 * finish      pin the switch, make the new program the default, unpin, remove what only the old program needs
 * ```
 *
 * A failure before the commit record rolls back: switch off, stale connections forgotten, the old program verified, the new
 * program's chains removed. Nothing of the old program is removed before the commit record. Where a layout or a node has no switch,
 * the tables change in order (`TransactionPlan.cutOver`); then no dead-man switch exists, and `describeFlip` says so in the plan.
 *
 * The ports: `kernel` (kernel/linux, kernel/fake) takes a whole step, or throws and takes nothing of it; `journal`
 * (state/journal.ts) is durable when a call returns, but for the beginning of an endpoint update; `clock` is CLOCK_BOOTTIME; `probes` open
 * new connections; `operator` passes decisions on. The process may end at any call of a port: `resume` then continues from the journal and
 * the observed state.
 *
 * @param decided what `decideChange` decided
 * @returns how it ended; `stale` and `failed` say whether and why a second attempt may help
 */
export async function transaction(
  decided: PlannedChange,
  rules: ProbationRules,
  ports: Ports,
  context: TransactionContext = {},
): Promise<TransactionResult> {
  try {
    return await inPhases(decided, rules, ports, context);
  } finally {
    enter('end', ports);
  }
}

/** Reported at the start of each, for measurements. */
type Phase = 'rehearse' | 'baseline' | 'stage' | 'verify' | 'probation' | 'finish' | 'roll back' | 'end';
const enter = (phase: Phase, { report }: Pick<Ports, 'report'>): void => report('phase', { phase });

async function inPhases(
  decided: PlannedChange,
  rules: ProbationRules,
  ports: Ports,
  { offers, baseline: given, isRetry = false }: TransactionContext,
): Promise<TransactionResult> {
  const { journal, probes, report } = ports;
  const { bundle, plan, changeKind } = decided;
  enter('rehearse', ports);
  const refused = await rehearse(decided, ports);
  if (refused) return { outcome: { kind: 'refused', refusal: refused } };
  enter('baseline', ports);
  const baseline = changeKind === 'release' ? (given?.before ?? allPass(probes)) : [];
  const good = changeKind === 'endpoints' ? ((await ports.updates?.before()) ?? []) : [];
  enter('stage', ports);
  // A decision that came too late for the previous probation must not count for this one.
  ports.operator.forget();
  try {
    // Generation 0, the rules before Sluice: written only now, so that a refused change claims nothing.
    if (!journal.active) await journal.adopt(decided.from.state);
    const { version, state, partial } = bundle;
    await journal.begin({ ...decided, flip: plan.flip, version, state, partial });
  } catch (error) {
    return { outcome: { kind: 'refused', refusal: notWritten(error) } };
  }
  const deadman = new Deadman(rules.deadmanSeconds, ports);
  const { failed, ipvs } = await cutOver(decided, rules, deadman, ports);
  if (failed) return rollBackAfter(failed, decided, ports, isRetry);
  enter('probation', ports);
  const probation = new ProbationWatch(decided, baseline, { rules, deadman, offers }, ports);
  const failure = changeKind === 'release' ? await probation.run() : undefined;
  // With the endpoints that arrived during probation.
  const { change } = probation;
  if (failure) return rollBackAfter(failure, change, ports, isRetry);
  enter('finish', ports);
  try {
    await deadman.renewLate();
    await journal.commit(
      noteOf(change, probation.failing),
      quarantinedAfter(journal.quarantinedServices, probation.quarantine, change.bundle),
    );
  } catch (error) {
    report('commit-failed', { because: messageOf(error) });
    return rollBackAfter(
      { kind: 'surroundings', because: `the commit record cannot be written: ${messageOf(error)}` },
      change,
      ports,
      isRetry,
    );
  }
  const ending = withFailing(await finish(change, ports), probation.failing);
  if (changeKind === 'endpoints') ports.updates?.after(good, () => changesOf(change));
  const isKnown = ipvs && change === decided && ending.outcome.kind === 'confirmed';
  return isKnown ? { ...ending, ipvs } : ending;
}

/** Input of a transaction besides the change itself. */
export interface TransactionContext {
  /** Source of bundles that arrive during probation; left out: none arrive. */
  readonly offers?: ProbationOffers | undefined;
  /** The answers of the probes before any part of the release; left out: no probe is excused. */
  readonly baseline?: VerifiedAnswers | undefined;
  /** What the change was planned from was out of date before, and was read again. */
  readonly isRetry?: boolean;
}

const allPass = ({ policies }: Ports['probes']): readonly ProbeResult[] =>
  policies.map(({ name }) => ({ name, healthy: true, seen: '' }));

function noteOf({ bundle }: PlannedChange, failing: readonly string[]): string | undefined {
  const notes = [
    ...(bundle.partial ? [describePartial(bundle.partial)] : []),
    ...(failing.length === 0 ? [] : [`with failing probes: ${failing.join(', ')}`]),
  ];
  return notes.length === 0 ? undefined : notes.join('; ');
}

function withFailing(ending: TransactionResult, failing: readonly string[]): TransactionResult {
  const { outcome } = ending;
  return outcome.kind === 'confirmed' && failing.length > 0 ? { ...ending, outcome: { ...outcome, failing } } : ending;
}

const changesOf = ({ from, bundle }: PlannedChange): string =>
  printEndpointChanges(endpointChanges(from.state, bundle.state));

interface CutOverResult {
  readonly failed?: RollbackReason;
  readonly ipvs?: ObservedIpvs;
}

/** The phases stage and cut over. */
async function cutOver(
  change: PlannedChange,
  rules: ProbationRules,
  deadman: Deadman,
  ports: Ports,
): Promise<CutOverResult> {
  const { plan } = change;
  const { kernel, report } = ports;
  try {
    // Probes come from this machine: without its packets on the new rules they would test the old ones.
    const { hasOwnTable } = nodePlaneOf(plan.desired);
    if (plan.flip === 'switch') await kernel.switch?.make(rules.sources, ports.probes.policies.length > 0, hasOwnTable);
    await carryOut(plan.stage, ports);
    // Reading all tables takes a second at 10,000 Services, in which a node without Services would have none still.
    const isReadLate = change.isFirst === true && plan.flip === 'switch';
    const staged = (): Promise<string | undefined> => firstDifference(plan.afterStage, plan.stage, kernel);
    const unstaged = isReadLate ? undefined : await staged();
    if (unstaged !== undefined) return { failed: differs(unstaged) };
    if (plan.flip === 'switch') await deadman.start();
    await carryOut(plan.cutOver, ports);
    // Packets meet the new rules from here on.
    enter('verify', ports);
    const isUpdate = change.changeKind === 'endpoints';
    const difference =
      (isReadLate ? await deadman.during(staged) : undefined) ??
      (await (isUpdate
        ? updateDifference(plan, plan.cutOver, kernel)
        : firstDifference(plan.afterCutOver, plan.cutOver, kernel)));
    if (difference !== undefined) return { failed: differs(difference) };
    const { left, ipvs } = await verifyIpvs(change, ports);
    if (left !== undefined) return { failed: differs(left) };
    report('in-kernel', { steps: plan.stage.steps.length + plan.cutOver.steps.length, flip: plan.flip });
    if (plan.flip === 'ordered') await forgetAfter(change.flows.old, ports);
    return ipvs ? { ipvs } : {};
  } catch (error) {
    return { failed: { kind: isOfSurroundings(error) ? 'surroundings' : 'kernel', because: messageOf(error) } };
  }
}

function differs(difference: string): RollbackReason {
  return { kind: 'differs', because: `the kernel does not hold what was loaded: ${difference}` };
}

async function rollBackAfter(
  seen: RollbackReason,
  change: PlannedChange,
  ports: Ports,
  isRetry: boolean,
): Promise<TransactionResult> {
  enter('roll back', ports);
  const failure = isOfRules[seen.kind] ? await onKnownRules(seen, change, ports) : seen;
  const isRefused = failure.kind === 'kernel' || failure.kind === 'differs';
  if (isRefused || failure.kind === 'surroundings')
    ports.report('kernel-refused', { because: failure.because, lane: change.changeKind });
  // What the change was planned from was only remembered, or another program has changed it since.
  const isOutdated = (isRefused && !change.observed) || (seen.kind === 'kernel' && failure.kind === 'surroundings');
  const isStale = isOutdated && !isRetry;
  const fault = isRefused && isStale ? 'process' : faults[failure.kind];
  const ending = await rollBack(failure.because, change.from, fault, ports);
  return { ...ending, failed: failure.kind, ...(isStale ? { stale: true } : {}) };
}

/** What is said of a bundle on the assumption that no other program touched the rules. */
const isOfRules: Readonly<Partial<Record<RollbackReason['kind'], true>>> = { health: true, kernel: true };

/**
 * Whether a release failed on the rules that it was made for: what another program did to them, the release is not to blame for. Probes fail on
 * its own rules; the kernel refuses steps from the rules before.
 * @returns the reason, or another one; also where that cannot be read
 */
async function onKnownRules(failure: RollbackReason, change: PlannedChange, ports: Ports): Promise<RollbackReason> {
  const { kernel } = ports;
  try {
    // Before anything is read: packets come first.
    if (change.plan.flip === 'switch') await kernel.switch?.off('nat');
    const isRefused = failure.kind !== 'health';
    const ofRules = await (isRefused ? untouchedDifference(change, kernel) : foreignDifference(change.plan, kernel));
    const difference = ofRules ?? (await takenFromIpvs(change, isRefused, ports));
    return difference === undefined ? failure : foreign(difference);
  } catch (error) {
    const kind = isOfSurroundings(error) ? 'surroundings' : failure.kind;
    return { kind, because: `${failure.because}; on which rules is not known: ${messageOf(error)}` };
  }
}

/** Who is to blame for each reason: only what the kernel or the probes say of a bundle counts against it. */
const faults = {
  kernel: 'bundle',
  health: 'bundle',
  operator: 'bundle',
  differs: 'surroundings',
  surroundings: 'surroundings',
  process: 'process',
  asked: 'asked',
} as const satisfies Readonly<Record<RollbackReason['kind'], Fault>>;

/**
 * Loads the rules in a scratch namespace before anything is touched. When the rehearsal itself cannot run, the change is not made, and
 * the bundle is not blamed: it is retried.
 * @returns why the kernel refuses the rules (`NODE_REFUSES_RULES`) or why they could not be rehearsed (`NODE_CANNOT_REHEARSE`);
 *   undefined when the kernel takes them
 */
export async function rehearse(
  { bundle, now, plan }: Pick<PlannedChange, 'bundle' | 'now' | 'plan'>,
  { rehearsal }: Pick<Ports, 'rehearsal'>,
): Promise<Refusal | undefined> {
  try {
    const touched = [plan.stage, plan.cutOver, plan.defaults].flatMap((part) => part.touched);
    await rehearsal.ensure(bundle.state, touched, now);
    return undefined;
  } catch (error) {
    if (isOfSurroundings(error)) {
      const message = messageOf(error);
      const hint = error instanceof RehearsalError ? error.hint : 'Nothing was touched; it is tried again by itself';
      return { problems: [refusal('NODE_CANNOT_REHEARSE', message, hint)] };
    }
    const hint =
      'If the kernel lacks an extension, load its module or change the option of the profile that needs it; nothing was touched';
    const message = `Cannot load the rules in a scratch namespace: ${messageOf(error)}`;
    return { problems: [refusal('NODE_REFUSES_RULES', message, hint)] };
  }
}

function notWritten(error: unknown): Refusal {
  const message = `Cannot write the change to the journal: ${messageOf(error)}`;
  const known = error instanceof Error && 'hint' in error && typeof error.hint === 'string' ? error.hint : undefined;
  const hint = known ?? 'Nothing was touched. Make the state directory writable, or free space on its disk';
  return { problems: [refusal('NODE_STATE_INVALID', message, hint)] };
}

/** How packets come to the new rules, as a sentence for a printed plan. */
export function describeFlip(flip: Flip, deadmanSeconds: number): string {
  return flip === 'switch'
    ? `one switch sends the packets of both families to the new rules; without a heartbeat the kernel rolls back after ${deadmanSeconds} s`
    : 'packets go to the new rules table by table, in an order that keeps serving traffic; there is no dead-man switch';
}
