import type { BundleFiles } from '@sluice/bundle';
import type { ObservedIpvs } from '../ipvs/values.ts';
import { moveFirst } from '../order/move-first.ts';
import { judgeOrder } from '../order/order.ts';
import { type AdmittedBundle, isRefusal } from '../admission/admit.ts';
import { isBare } from '../recovery/bare.ts';
import { messageOf } from '../message.ts';
import { fallBack } from '../recovery/fall-back.ts';
import type { Outcome } from '../ports/outcome.ts';
import { adaptDesired, countNames, foreignSluiceChains, ownState, foreignProxyChains } from '../plan/ownership.ts';
import { describeStep, type Plan, plan } from '../plan/plan.ts';
import type { Generation, VersionedState } from '../ports/journal.ts';
import type { NodeFacts } from '../ports/node-facts.ts';
import type { Ports } from '../ports/ports.ts';
import type { Refusal } from '../ports/refusal.ts';
import { restore, withSysctls } from '../transaction/restore.ts';
import { type OwnedNames, chainNames, familiesOf, type NodeState, type Observed } from '../ports/node-state.ts';
import { orInterrupted } from '../transaction/interrupted.ts';
import { drainVirtual, planVirtual, type Virtual } from '../plan/virtual.ts';
import { Admission, type AdmissionOptions } from '../admission/admission.ts';
import { EarlyEndpoints } from './early-endpoints.ts';
import { decideChange, type ChangeHints } from '../transaction/decide-change.ts';
import { cleanUp } from '../transaction/clean-up.ts';
import { isTree } from '../plan/entries.ts';
import { load } from '../recovery/load-generation.ts';
import { type RollBackOptions, rollBackTo } from '../transaction/roll-back-to.ts';
import { familiesWithTools, type StartState, knowsStartState, readStartState } from '../admission/start-state.ts';
import { LastEndpointDelay } from '../endpoints/last-endpoint-delay.ts';
import { networksOf, refuseOutside } from '../endpoints/endpoint-networks.ts';
import { EndpointRate } from '../endpoints/endpoint-rate.ts';
import { type Baseline, rollBackEndpoints } from './endpoint-rollback.ts';
import { decline } from '../endpoints/decline.ts';
import { noOffers, type Offers, type ProbationOffers } from '../transaction/offers.ts';
import type { ProbationRules } from '../transaction/probation.ts';
import { beyondEndpoints, isMore, mustWait, quarantined } from './gate.ts';
import { recognise } from '../recovery/recognise.ts';
import { rescue } from '../recovery/rescue.ts';
import { resume } from '../recovery/resume.ts';
import { type PlannedChange, type TransactionResult, rehearse, transaction } from '../transaction/transaction.ts';
import { waitingOutcome } from './waiting-outcome.ts';
import { stepsOf } from '../plan/transaction-plan.ts';

/** The settings of a reconciler in the node's config. */
export interface ReconcilerOptions extends AdmissionOptions {
  readonly probation: ProbationRules;
  /** At most so many are tried without an operator. */
  readonly releasesPerHour: number;
  /** Moves our jumps before foreign rules that take packets of Services. */
  readonly takeOrder?: boolean;
  /** The last-endpoint delay; left out: none. */
  readonly lastEndpointAfterMs?: number;
}

/** A call of `put`, and what became of its early endpoints. */
interface PutRequest {
  readonly files: BundleFiles;
  readonly byHand: boolean;
  readonly offers: Offers;
  readonly onlyEndpoints: boolean;
  readonly isUrgent: boolean;
  /** The outcome of the part of the bundle that went in early. */
  readonly early?: Outcome;
  readonly baseline?: Baseline | undefined;
}

/**
 * Keeps one kernel at the active generation of the journal: recovers after a crash, repairs drift, and puts bundles in, one at a time.
 * Callers never overlap two of its methods.
 */
export class Reconciler {
  readonly #ports: Ports;
  readonly #facts: () => NodeFacts;
  readonly #options: ReconcilerOptions;
  readonly #admission: Admission;
  readonly #lastEndpointDelay: LastEndpointDelay;
  readonly #early: EarlyEndpoints;
  readonly #rate = new EndpointRate();
  /** The state of the kernel when it was last compared or written and verified; undefined: it must be read. */
  #kernelState: NodeState | undefined;
  /** The same for mode ipvs. */
  #ipvs: ObservedIpvs | undefined;

  constructor(ports: Ports, facts: () => NodeFacts, options: ReconcilerOptions) {
    this.#ports = ports;
    this.#facts = facts;
    this.#options = options;
    this.#admission = new Admission(ports, facts, options);
    this.#lastEndpointDelay = new LastEndpointDelay(options.lastEndpointAfterMs ?? 0, ports.clock);
    this.#early = new EarlyEndpoints({
      journal: ports.journal,
      declined: ports.declined,
      admit: (files) => this.#admission.of(files),
      decide: (bundle) => this.#decide(bundle),
      carryOut: (change) => this.#carryOut(change),
    });
  }

  /**
   * Closes the transaction that an earlier process left open: rolls it back, or finishes it if it was committed. To be called first. Also
   * replaces a lost journal or a damaged generation, where that is safe.
   * @param end no retries once it aborts: the next process continues
   * @returns undefined if there was nothing to recover
   */
  async recover(end?: AbortSignal): Promise<Outcome | undefined> {
    const { journal } = this.#ports;
    const families = familiesWithTools(this.#facts());
    const found = (await rescue(families, this.#ports)) ?? (await fallBack(families, this.#ports));
    if (found) return found;
    if (journal.halted !== undefined) return { kind: 'held', because: journal.halted, rollback: 'not retried' };
    const ending = await resume(this.#ports, end);
    if (ending) this.#remember(ending);
    return ending?.outcome;
  }

  #remember({ kernelState, ipvs }: TransactionResult): void {
    this.#kernelState = kernelState;
    this.#ipvs = ipvs;
  }

  /**
   * Makes the kernel hold the active generation: after a boot, and whenever another program changed our chains or jumps.
   * @param tables false: no change of the tables was reported, so that only sysctls and mode ipvs are compared, unless the state of the
   *   tables is unknown
   * @param interrupt when it aborts before a difference was found, the comparison ends early, unless the state of the tables is unknown
   * @returns the number of steps; 0 if nothing differed
   */
  async reconcile(tables = true, interrupt?: AbortSignal): Promise<number | 'interrupted'> {
    const { journal, report } = this.#ports;
    if (journal.open || (tables && journal.lost !== undefined)) await this.recover();
    const active = journal.active;
    if (!active || journal.halted !== undefined || journal.open) return 0;
    const known = tables ? undefined : this.#kernelState;
    const change = await orInterrupted(this.#difference(active.state, known, this.#kernelState && interrupt));
    if (change === 'interrupted') return change;
    this.#ipvs = undefined;
    if (change.plan.steps.length === 0) {
      this.#kernelState = change.desired;
      await this.#dropSwitch();
      await journal.tidy();
      if (change.virtual) await this.#drain(change.virtual);
      return change.observed ? this.#keepOrder(change.observed, change.now) : 0;
    }
    report('repairing', {
      steps: change.plan.steps.length,
      chains: change.plan.touched.map(({ family, table }) => `${family} ${table}`),
    });
    this.#kernelState = undefined;
    this.#kernelState = await restore(active.state, chainNames(active.state), this.#ports);
    await this.#dropSwitch();
    await journal.tidy();
    return change.plan.steps.length;
  }

  /** Compares the kernel with the active generation and changes nothing. @returns a line for each step that `reconcile` would take */
  async differences(): Promise<readonly string[]> {
    const { active } = this.#ports.journal;
    return active ? (await this.#difference(active.state, undefined)).plan.steps.map(describeStep) : [];
  }

  /** Reports which foreign rules take packets before our jumps; with `takeOrder`, moves our jumps before them. */
  async #keepOrder(observed: Observed, now: NodeState): Promise<number> {
    const order = judgeOrder(observed, now, this.#facts().addresses);
    const steps = this.#options.takeOrder ? moveFirst(order.taking, now) : [];
    for (const step of steps) await this.#ports.kernel.apply(step);
    this.#ports.report('order', steps.length > 0 ? { ...order, taking: [] } : { ...order });
    return steps.length;
  }

  /** Removes sets that a crash left behind and no rule names any more. */
  async #dropSwitch(): Promise<void> {
    const { kernel } = this.#ports;
    await kernel.switch?.remove();
  }

  async #drain(virtual: Virtual): Promise<void> {
    const left = await drainVirtual(virtual, this.#ports);
    if (left > 0) this.#ports.report('drained', { realServers: left });
    else this.#ipvs = virtual.observed;
  }

  /** @param known the state of the kernel, if its tables need not be read */
  async #difference(
    state: NodeState,
    known: NodeState | undefined,
    interrupt?: AbortSignal,
  ): Promise<{
    plan: Plan;
    desired: NodeState;
    now: NodeState;
    virtual: Virtual | undefined;
    observed: Observed | undefined;
  }> {
    const owned = chainNames(state);
    const { desired, families, observed } = known
      ? { desired: known, families: known.families, observed: undefined }
      : await this.#tables(state, owned, interrupt);
    // First: reading mode ipvs loads its module, and with it come its sysctls.
    const virtual = await planVirtual(desired, owned, this.#ports);
    const now = await withSysctls({ families, sysctls: new Map() }, desired, this.#ports);
    return { plan: plan(now, desired, this.#ports.kernel, virtual?.plan), desired, now, virtual, observed };
  }

  /** Whether the kernel holds no rules for Services of any program, as after a boot. */
  async isBare(): Promise<boolean> {
    return isBare(await this.#ports.kernel.observe(familiesWithTools(this.#facts())), this.#ports);
  }

  /** @see load */
  async load(target: Generation): Promise<void> {
    this.#kernelState = undefined;
    return load(target, this.#ports);
  }

  /** Reads the tables. @returns the state as this kernel can have it, and our part of the tables */
  async #tables(
    state: NodeState,
    owned: OwnedNames,
    interrupt?: AbortSignal,
  ): Promise<{ readonly desired: NodeState; readonly families: NodeState['families']; readonly observed: Observed }> {
    const observed = await this.#ports.kernel.observe(familiesOf(state), state, interrupt);
    const foreign = countNames(
      isTree(state) ? foreignSluiceChains(observed, owned) : foreignProxyChains(observed, owned),
    );
    this.#ports.report('strangers', { chains: foreign });
    const desired = adaptDesired(state, observed, owned, this.#ports.kernel);
    return { desired, families: ownState(observed, owned, desired), observed };
  }

  /**
   * Puts a bundle into the kernel, or refuses it.
   * @param byHand the operator asked for it: a quarantined version is tried again
   * @param offers source of bundles that arrive during probation
   * @param onlyEndpoints it is signed by keys for endpoints, which may change nothing else
   * @param isUrgent it is signed as urgent: failures of earlier releases do not delay it
   */
  async put(
    files: BundleFiles,
    byHand: boolean,
    offers = noOffers,
    onlyEndpoints = false,
    isUrgent = false,
  ): Promise<Outcome> {
    const { journal } = this.#ports;
    const left = await this.recover();
    if (left?.kind === 'held') return left;
    const bundle = await this.#admission.of(files);
    const bad = byHand || isRefusal(bundle) ? undefined : journal.quarantined(bundle.version);
    if (isRefusal(bundle) || bad !== undefined) this.#lastEndpointDelay.forget();
    if (isRefusal(bundle)) return { kind: 'refused', refusal: bundle };
    const outside = onlyEndpoints ? this.#outside(bundle) : undefined;
    if (outside) return { kind: 'refused', refusal: outside };
    const request = { files, byHand, offers, onlyEndpoints, isUrgent };
    if (bad !== undefined) {
      const earlyEndpoints = await this.#earlyOf(bundle, request, true);
      return earlyEndpoints?.kind === 'held'
        ? earlyEndpoints
        : { kind: 'refused', refusal: quarantined(bundle.version, bad) };
    }
    const { active: before } = journal;
    const outcome = await this.#changeFresh(bundle, request);
    this.#learn(request, before, outcome);
    return outcome;
  }

  /** `#change`, retried once if the remembered state of the kernel was out of date. */
  async #changeFresh(bundle: AdmittedBundle, request: PutRequest): Promise<Outcome> {
    const ending = await this.#change(bundle, request);
    if (!ending.stale || ending.outcome.kind !== 'rolled-back') return ending.outcome;
    // The rollback has made the kernel equal to the journal.
    this.#remember({ outcome: ending.outcome });
    return (await this.#change(bundle, request)).outcome;
  }

  /** Why a bundle by keys for endpoints is refused: it has endpoints outside of the networks of the signed release. */
  #outside({ state }: VersionedState): Refusal | undefined {
    const { journal, networks } = this.#ports;
    return journal.active && refuseOutside(journal.active.state, state, networks?.read() ?? []);
  }

  /** Remembers of a confirmed bundle what bounds the keys for endpoints: the networks of a release, the rate of their changes. */
  #learn({ files, onlyEndpoints }: PutRequest, before: Generation | undefined, outcome: Outcome): void {
    const { networks, clock, report } = this.#ports;
    if (!networks || (outcome.kind !== 'confirmed' && outcome.kind !== 'same')) return;
    if (onlyEndpoints) {
      if (before) this.#rate.changed(before.state, outcome.generation.state, clock.bootMs());
      return;
    }
    try {
      networks.write(networksOf(files));
    } catch (error) {
      report('networks-not-written', { because: messageOf(error) });
    }
  }

  /** The share of all Services, 0 to 1, whose endpoints were changed by keys for endpoints within the last hour. */
  get endpointShare(): number {
    const { journal, clock } = this.#ports;
    return journal.active ? this.#rate.share(journal.active.state, clock.bootMs()) : 0;
  }

  /** Bundles that arrive during probation, checked like every bundle. */
  #forProbation(offers: Offers): ProbationOffers {
    return {
      arrival: () => offers.arrival(),
      isEnding: () => offers.isEnding?.() === true,
      take: async () => {
        try {
          const offered = await offers.look();
          const bundle = offered && (await this.#admission.of(offered.files));
          if (!bundle || isRefusal(bundle)) return undefined;
          return offered.onlyEndpoints && this.#outside(bundle) ? undefined : bundle;
        } catch (error) {
          // A bundle that cannot be read must not end the probation of another one; it is read again afterwards.
          this.#ports.report('endpoints-not-taken', { because: messageOf(error) });
          return undefined;
        }
      },
    };
  }

  async #change(bundle: AdmittedBundle, request: PutRequest): Promise<TransactionResult> {
    const { byHand, offers, onlyEndpoints, early } = request;
    const hints = { replacesAll: onlyEndpoints };
    let change = await this.#decide(bundle, hints);
    const waits = this.#lastEndpointDelay.waits(byHand || 'problems' in change ? {} : change);
    if ('problems' in change) return { outcome: { kind: 'refused', refusal: change } };
    const isBeyond = onlyEndpoints && isMore(change);
    const baseline = request.baseline ?? (isBeyond ? undefined : await this.#baseline(change, request));
    const partial = isBeyond
      ? undefined
      : await this.#early.withoutPending(request.files, bundle.version, waits.pending);
    if (partial?.kind === 'held') return { outcome: partial };
    if (partial?.kind === 'confirmed' && !early) return this.#changeRest({ ...request, baseline }, partial);
    const waitsMs = partial ? waits.nextMs : waits.togetherMs;
    const isRelease = change.changeKind === 'release';
    const earlyEndpoints =
      waitsMs > 0 || isBeyond || isRelease ? await this.#earlyOf(bundle, request, isRelease) : undefined;
    if (earlyEndpoints?.kind === 'held') return { outcome: earlyEndpoints };
    if (isBeyond) return { outcome: { kind: 'refused', refusal: beyondEndpoints(bundle.version) } };
    if (waitsMs > 0) return { outcome: waitingOutcome(earlyEndpoints ?? early ?? partial, change, waitsMs) };
    if (earlyEndpoints?.kind === 'confirmed' && !early)
      return this.#changeRest({ ...request, baseline }, earlyEndpoints);
    if (earlyEndpoints) change = await this.#decide(bundle, hints);
    if ('problems' in change) return { outcome: { kind: 'refused', refusal: change } };
    const { from } = change;
    if (stepsOf(change.plan).length === 0 && bundle.version === from.version) {
      this.#kernelState = change.plan.desired;
      this.#early.activated(request.files, from);
      return { outcome: { kind: 'same', generation: from } };
    }
    const tooSoon = byHand ? undefined : mustWait(change, this.#options.releasesPerHour, this.#ports, request.isUrgent);
    if (tooSoon) return { outcome: { kind: 'refused', refusal: tooSoon } };
    const given = { offers: this.#forProbation(offers), baseline: baseline?.answers };
    const ending = await transaction(change, this.#options.probation, this.#ports, given);
    this.#remember(ending);
    this.#early.learn(request.files, bundle, ending);
    return baseline ? this.#afterRelease(ending, baseline) : ending;
  }

  /** Runs the probes before any part of a release is in the kernel: a probe that its early endpoints break must count against it. */
  async #baseline(change: PlannedChange, { byHand, isUrgent }: PutRequest): Promise<Baseline | undefined> {
    const isTried =
      change.changeKind === 'release' &&
      (byHand || !mustWait(change, this.#options.releasesPerHour, this.#ports, isUrgent));
    if (!isTried || change.from.number === 0) return undefined;
    return { answers: await this.#ports.probes.untilVerdict(), generation: change.from };
  }

  async #afterRelease(ending: TransactionResult, baseline: Baseline): Promise<TransactionResult> {
    const { outcome, failed } = ending;
    if (outcome.kind === 'confirmed') decline(new Map(), this.#ports);
    if (outcome.kind !== 'rolled-back' || failed !== 'health') return ending;
    const update = async (target: VersionedState): Promise<Outcome | undefined> => {
      const change = await this.#decide(target, { changeKind: 'endpoints' });
      return 'problems' in change ? undefined : (await this.#carryOut(change)).outcome;
    };
    return { ...ending, outcome: await rollBackEndpoints(outcome.because, baseline, { ports: this.#ports, update }) };
  }

  /** Carries out an endpoint update, retried once if the remembered state of the kernel was out of date. */
  async #carryOut(change: PlannedChange): Promise<TransactionResult> {
    const ending = await transaction(change, this.#options.probation, this.#ports);
    const isStale = ending.stale === true && ending.outcome.kind === 'rolled-back';
    this.#remember(isStale ? { outcome: ending.outcome } : ending);
    const again = isStale ? await this.#decide(change.bundle, { changeKind: change.changeKind }) : undefined;
    return again && !('problems' in again) ? this.#carryOut(again) : ending;
  }

  /** The rest of a bundle, after part of it went in early. Linked anew: names of its chains may be in use by now. */
  async #changeRest(request: PutRequest, early: Outcome): Promise<TransactionResult> {
    const bundle = await this.#admission.of(request.files);
    return isRefusal(bundle)
      ? { outcome: { kind: 'refused', refusal: bundle } }
      : this.#change(bundle, { ...request, early });
  }

  /**
   * Early endpoint sync of a bundle.
   * @param withFirst also the first endpoints of Services; not for keys for endpoints
   */
  async #earlyOf(
    bundle: VersionedState,
    { files, onlyEndpoints }: PutRequest,
    withFirst: boolean,
  ): Promise<Outcome | undefined> {
    const first = withFirst && !onlyEndpoints ? await this.#early.firstEndpoints(files, bundle) : undefined;
    if (first?.kind === 'held') return first;
    const rest = first ? await this.#admission.of(files) : bundle;
    return ('problems' in rest ? undefined : await this.#early.endpoints(rest)) ?? first;
  }

  async #decide(bundle: VersionedState, hints: ChangeHints = {}): Promise<PlannedChange | Refusal> {
    const startState = await this.#startState(bundle);
    return 'problems' in startState ? startState : decideChange(bundle, startState, this.#ports, hints);
  }

  /**
   * Tries whether the kernel would take a bundle, without changing any rule that packets meet.
   * @returns `same` if it is the active version
   */
  async rehearse(files: BundleFiles): Promise<'same' | 'ready' | Refusal> {
    const { journal } = this.#ports;
    this.#lastEndpointDelay.forget();
    const bundle = await this.#admission.of(files);
    if (isRefusal(bundle)) return bundle;
    if (bundle.version === journal.active?.version) return 'same';
    const bad = journal.quarantined(bundle.version);
    if (bad !== undefined) return quarantined(bundle.version, bad);
    const change = await this.#decide(bundle);
    if ('problems' in change) return change;
    return (await rehearse(change, this.#ports)) ?? 'ready';
  }

  /** Decides what `put` would do, without doing it. */
  async preview(files: BundleFiles, onlyEndpoints = false): Promise<PlannedChange | Refusal> {
    const bundle = await this.#admission.of(files);
    if (isRefusal(bundle)) return bundle;
    const outside = onlyEndpoints ? this.#outside(bundle) : undefined;
    if (outside) return outside;
    const change = await this.#decide(bundle, { replacesAll: onlyEndpoints });
    return onlyEndpoints && !('problems' in change) && isMore(change) ? beyondEndpoints(bundle.version) : change;
  }

  /** The state before the change: remembered, or read from the kernel. */
  async #startState({ state }: VersionedState): Promise<StartState | Refusal> {
    const { active } = this.#ports.journal;
    if (active && this.#kernelState && knowsStartState(state, active)) {
      return { from: active, now: this.#kernelState, ...(this.#ipvs ? { ipvs: this.#ipvs } : {}) };
    }
    const reads = this.#admission.takeReads();
    return readStartState(state, this.#facts(), { takeOver: this.#options.takeOver, reads }, this.#ports);
  }

  /**
   * Takes over Sluice's rules in the kernel, for a node that lost its state directory; no rule changes.
   * @returns the generation that is active from now on, or why there is none
   */
  async recognise(): Promise<Generation | Refusal> {
    const { journal } = this.#ports;
    const state = await recognise(this.#facts(), this.#ports);
    if ('problems' in state) return state;
    return journal.recognised(state, 'the state directory was lost; these rules were in the kernel');
  }

  /** `cleanUp`. */
  async cleanup(): Promise<number> {
    this.#kernelState = undefined;
    return cleanUp(this.#ports);
  }

  /** `rollBackTo`. */
  async rollBackTo(target: Generation, options: RollBackOptions = {}): Promise<Outcome> {
    this.#kernelState = undefined;
    const ending = await rollBackTo(target, options, this.#ports);
    this.#remember(ending);
    return ending.outcome;
  }
}
