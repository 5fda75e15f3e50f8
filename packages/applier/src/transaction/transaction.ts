import type { IpvsTimeouts } from '@sluice/bundle';
import type { AdmittedBundle } from '../rollout/admit.ts';
import { carryOut } from '../rollout/carry-out.ts';
import type { Outcome } from '../rollout/outcome.ts';
import type { IpvsSeen } from '../ipvs/values.ts';
import { forgetAfter } from '../rollout/forgetting.ts';
import {
  type Fault,
  type Flip,
  type FlowChange,
  type Generation,
  type Ports,
  type ProbeResult,
  type Refusal,
  RehearsalError,
} from '../rollout/ports.ts';
import type { ChainNames, NodeState, Observed } from '../rollout/state.ts';
import { unlike } from '../rollout/verify.ts';
import { leftVirtual, type Virtual } from '../rollout/virtual.ts';
import { messageOf } from '../rollout/message.ts';
import { rollBack } from './back.ts';
import { Deadman } from './deadman.ts';
import { endpointChanges, printEndpointChanges } from './endpoint-changes.ts';
import { finish } from './finish.ts';
import type { ChangeClass } from './change-kind.ts';
import type { ProbationOffers } from './offers.ts';
import { type ProbationRules, Probation } from './probation.ts';
import { updateDiffers } from './roots-hold.ts';
import type { Way } from './way.ts';

/** What the kernel is to hold: an admitted bundle, or an admitted state with the endpoints of another one. */
export type Target = Pick<AdmittedBundle, 'version' | 'state'>;

/** What one transaction is to do, decided before the first step. */
export interface Change extends ChangeClass {
  readonly bundle: Target;
  /** The generation that stands: the way back. */
  readonly from: Generation;
  /** What the kernel holds of ours before it. */
  readonly now: NodeState;
  readonly way: Way;
  /** What is ours before the change. */
  readonly owned: ChainNames;
  readonly flows: FlowChange;
  /** The values that sysctls have now, of those that `from` does not set. */
  readonly sysctls: NodeState['sysctls'];
  /** The time-outs that IPVS has now, where the change sets others. */
  readonly timeouts?: IpvsTimeouts;
  /** The tables as they were read for this change; left out when they were known from before. */
  readonly observed?: Observed;
  /** What is to be done in mode ipvs, and what the kernel held of it before. */
  readonly virtual?: Virtual;
}

/** The outcome, and what the kernel holds now where that is known without looking. */
export interface Ending {
  readonly outcome: Outcome;
  readonly settled?: NodeState;
  /** What mode ipvs holds now, where it was looked at. */
  readonly ipvs?: IpvsSeen;
  /** Of what was taken back: why. */
  readonly failed?: Failure['kind'];
  /** The kernel did not take the change and was not looked at before: somebody else may have changed it since the last look. */
  readonly stale?: true;
}

/**
 * One transaction: the kernel goes from what it holds to what the bundle says, or back.
 *
 * ```
 * rehearse    the kernel's opinion, in a scratch namespace                     nothing was touched: refused
 * baseline    every probe: only regressions count later; asked before early endpoints where these came first
 * begin       the journal knows what is to be done                            crash from here on: the old program
 * stage       new chains beside the old ones; no packet meets them
 * flip        filter's switch, then nat's, each with a time-out               no process left: the kernel goes back by itself
 * probation   invariants and probes; each good round renews the switch; newer endpoints go into both programs
 * commit      one write and fsync: the only decision                          crash from here on: the new program
 * finish      pin, new defaults, unpin, collect, reconcile
 * ```
 *
 * Whatever fails before the token is taken back: switch off, connections healed, the old program verified, the new one's chains
 * removed. Nothing of the old program is removed before the token. A flip in order (`Way.turn`) stands in for the switch where a
 * layout or a node has none; then nothing goes back without a process, and `describeWay` says so in the plan.
 *
 * The ports: `kernel` (kernel/linux.ts, kernel/fake.ts) takes a step whole or throws and takes nothing; `journal`
 * (journal/journal.ts) is durable when a call returns; `clock` is CLOCK_BOOTTIME; `probes` open new connections; `person` says what
 * somebody at the terminal decided. A process may end at any call of any of them: `recover` goes on from what the journal and the
 * kernel show.
 */
export async function transaction(
  decided: Change,
  rules: ProbationRules,
  ports: Ports,
  { offers, baseline }: Given = {},
): Promise<Ending> {
  try {
    return await inPhases(decided, rules, ports, { offers, baseline });
  } finally {
    enter('end', ports);
  }
}

/** For whoever measures how long the parts take. */
type Phase = 'rehearse' | 'baseline' | 'write' | 'verify' | 'trial' | 'finish' | 'back' | 'end';
const enter = (phase: Phase, { report }: Pick<Ports, 'report'>): void => report('phase', { phase });

async function inPhases(
  decided: Change,
  rules: ProbationRules,
  ports: Ports,
  { offers, baseline: given }: Given,
): Promise<Ending> {
  const { journal, probes, report } = ports;
  const { bundle, way, changeKind } = decided;
  enter('rehearse', ports);
  const refusal = await rehearse(decided, ports);
  if (refusal) return { outcome: { kind: 'refused', refusal } };
  enter('baseline', ports);
  // By the same rule as afterwards: a probe that flaps is judged alike.
  const baseline = changeKind === 'release' ? (given ?? (await probes.patiently())) : [];
  const good = changeKind === 'endpoints' ? ((await ports.updates?.before()) ?? []) : [];
  enter('write', ports);
  // What a person said of an earlier trial, too late for it, is not about this one.
  ports.person.forget();
  try {
    // What stood before Sluice. A change that is refused before has claimed nothing.
    if (!journal.active) await journal.adopt(decided.from.state);
    await journal.begin({ ...decided, flip: way.flip, version: bundle.version, state: bundle.state });
  } catch (error) {
    return { outcome: { kind: 'refused', refusal: notWritten(error) } };
  }
  const deadman = new Deadman(rules.deadmanSeconds, ports);
  const { failed, ipvs } = await put(decided, rules, deadman, ports);
  if (failed) return takenBack(failed, decided, ports);
  enter('trial', ports);
  const probation = new Probation(decided, baseline, { rules, deadman, offers }, ports);
  const failure = changeKind === 'release' ? await probation.run() : undefined;
  // With the endpoints that came meanwhile.
  const { change } = probation;
  if (failure) return takenBack(failure, change, ports);
  enter('finish', ports);
  try {
    await deadman.renewLate();
    await journal.commit(noteOf(probation.failing));
  } catch (error) {
    report('commit-failed', { because: messageOf(error) });
    return takenBack(
      { kind: 'process', because: `the commit token cannot be written: ${messageOf(error)}` },
      change,
      ports,
    );
  }
  const ending = withFailing(await finish(change, ports), probation.failing);
  if (changeKind === 'endpoints') ports.updates?.after(good, () => changesOf(change));
  const isKnown = ipvs && change === decided && ending.outcome.kind === 'confirmed';
  return isKnown ? { ...ending, ipvs } : ending;
}

/** What is known before a change begins. */
export interface Given {
  /** What comes while it is on trial; left out: nothing. */
  readonly offers?: ProbationOffers | undefined;
  /** What the probes said before anything of it was in the kernel; left out: nothing of it is. */
  readonly baseline?: readonly ProbeResult[] | undefined;
}

const noteOf = (failing: readonly string[]): string | undefined =>
  failing.length === 0 ? undefined : `with failing probes: ${failing.join(', ')}`;

function withFailing(ending: Ending, failing: readonly string[]): Ending {
  const { outcome } = ending;
  return outcome.kind === 'confirmed' && failing.length > 0 ? { ...ending, outcome: { ...outcome, failing } } : ending;
}

const changesOf = ({ from, bundle }: Change): string => printEndpointChanges(endpointChanges(from.state, bundle.state));

/** Why a change must be taken back. */
export interface Failure {
  /** The kernel refused, health failed, a person said so; or it was no fault of the bundle: `asked` when this process is to end. */
  readonly kind: 'kernel' | 'health' | 'person' | 'process' | 'asked';
  readonly because: string;
}

/** How the way to the flip ended. */
interface Put {
  /** Why it must be taken back. */
  readonly failed?: Failure;
  /** What mode ipvs holds now. */
  readonly ipvs?: IpvsSeen;
}

/** From the first step to the flip. */
async function put(change: Change, rules: ProbationRules, deadman: Deadman, ports: Ports): Promise<Put> {
  const { way } = change;
  const { kernel, report } = ports;
  try {
    // Probes come from this machine: a trial without its packets would be judged by the rules of before.
    if (way.flip === 'switch') await kernel.switch?.make(rules.sources, ports.probes.policies.length > 0);
    await carryOut(way.stage, ports);
    const staged = await unlike(way.staged, way.stage, kernel);
    if (staged !== undefined) return { failed: differs(staged) };
    if (way.flip === 'switch') await deadman.start();
    await carryOut(way.turn, ports);
    // Packets go the new way from here on.
    enter('verify', ports);
    const isUpdate = change.changeKind === 'endpoints';
    const turned = await (isUpdate ? updateDiffers(way, way.turn, kernel) : unlike(way.turned, way.turn, kernel));
    if (turned !== undefined) return { failed: differs(turned) };
    const virtual = way.desired.ipvs ? await virtualLeft(change, ports) : {};
    if (virtual.left !== undefined) return { failed: differs(virtual.left) };
    report('in-kernel', { steps: way.stage.steps.length + way.turn.steps.length, flip: way.flip });
    if (way.flip === 'ordered') await forgetAfter(change.flows.old, ports);
    return virtual.ipvs ? { ipvs: virtual.ipvs } : {};
  } catch (error) {
    return { failed: { kind: 'kernel', because: messageOf(error) } };
  }
}

/** What mode ipvs holds after the steps and what it lacks, in words; real servers that drain are written down. */
export async function virtualLeft(
  { way, owned, virtual: before }: Change,
  ports: Ports,
): Promise<{ readonly left?: string; readonly ipvs?: IpvsSeen }> {
  if (!before) return {};
  const { left, virtual } = await leftVirtual(way.desired, owned, ports, before);
  if (!virtual) return {};
  await ports.journal.keepDraining(virtual.plan.draining);
  return { ipvs: virtual.seen, ...(left === undefined ? {} : { left }) };
}

function differs(difference: string): Failure {
  return { kind: 'kernel', because: `the kernel does not hold what was loaded: ${difference}` };
}

async function takenBack(failure: Failure, change: Change, ports: Ports): Promise<Ending> {
  enter('back', ports);
  if (failure.kind === 'kernel') ports.report('kernel-refused', { because: failure.because, lane: change.changeKind });
  const isStale = failure.kind === 'kernel' && !change.observed;
  const ending = await rollBack(failure.because, change.from, isStale ? 'process' : faultOf(failure), ports);
  return { ...ending, failed: failure.kind, ...(isStale ? { stale: true } : {}) };
}

const faultOf = ({ kind }: Failure): Fault => (kind === 'process' || kind === 'asked' ? kind : 'bundle');

/**
 * The kernel's own opinion, before anything is touched. A rehearsal that cannot be held is no opinion: the change is not made then, and
 * nothing is said against the bundle, which is tried again.
 * @returns why the kernel does not take the rules, or why it could not be asked; undefined when it takes them
 */
export async function rehearse(
  { bundle, now, way }: Pick<Change, 'bundle' | 'now' | 'way'>,
  { rehearsal }: Pick<Ports, 'rehearsal'>,
): Promise<Refusal | undefined> {
  try {
    const touched = [way.stage, way.turn, way.defaults].flatMap((part) => part.touched);
    await rehearsal.ensure(bundle.state, { steps: [], touched }, now);
    return undefined;
  } catch (error) {
    if (error instanceof RehearsalError) {
      const { message, hint } = error;
      return { problems: [{ code: 'NODE_CANNOT_REHEARSE', level: 'error', message, hint }] };
    }
    const hint =
      'If the kernel lacks an extension, load its module or change the option of the profile that needs it; nothing was touched';
    const message = `Cannot load the rules in a scratch namespace: ${messageOf(error)}`;
    return { problems: [{ code: 'NODE_REFUSES_RULES', level: 'error', message, hint }] };
  }
}

function notWritten(error: unknown): Refusal {
  const message = `Cannot write down what is to be done: ${messageOf(error)}`;
  const known = error instanceof Error && 'hint' in error && typeof error.hint === 'string' ? error.hint : undefined;
  const hint = known ?? 'Nothing was touched. Make the state directory writable, or free space on its disk';
  return { problems: [{ code: 'NODE_STATE_INVALID', level: 'error', message, hint }] };
}

/** How the flip is made, for people who read a plan. */
export function describeFlip(flip: Flip, deadmanSeconds: number): string {
  return flip === 'switch'
    ? `packets go to the new rules by one switch for both families; without a sign of life the kernel goes back after ${deadmanSeconds} s`
    : 'packets go to the new rules table by table, in an order that serves traffic; the kernel holds no dead-man';
}
