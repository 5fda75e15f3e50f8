import type { BundleFiles } from '@sluice/bundle';
import type { IpvsSeen } from '../ipvs/values.ts';
import { moveFirst } from '../order/move-first.ts';
import { judgeOrder } from '../order/order.ts';
import { type AdmittedBundle, isRefusal } from '../rollout/admit.ts';
import { isBare } from '../rollout/bare.ts';
import { messageOf } from '../rollout/message.ts';
import { fallBack } from '../rollout/fall-back.ts';
import type { Outcome } from '../rollout/outcome.ts';
import { adaptDesired, countNames, otherSluice, ownState, strangers } from '../rollout/own.ts';
import { describeStep, type Plan, plan } from '../rollout/plan.ts';
import type { Generation, NodeFacts, Ports, Refusal } from '../rollout/ports.ts';
import { restore, withSysctls } from '../rollout/restore.ts';
import { type ChainNames, chainNames, familiesOf, type NodeState, type Observed } from '../rollout/state.ts';
import { orInterrupted } from '../rollout/interrupted.ts';
import { drainVirtual, lookVirtual, type Virtual } from '../rollout/virtual.ts';
import { Admission, type AdmissionOptions } from './admission.ts';
import { EarlyEndpoints } from './early-endpoints.ts';
import { decideChange, type Known } from './change.ts';
import { cleanUp } from './clean-up.ts';
import { isTree } from './entries.ts';
import { load } from './frozen.ts';
import { type RollBackOptions, rollBackTo } from './roll-back-to.ts';
import { familiesWithTools, type StartState, knowsStartState, readStartState } from './start-state.ts';
import { LastEndpointDelay } from './last-endpoint-delay.ts';
import { networksOf, refuseOutside } from './endpoint-networks.ts';
import { EndpointRate } from './endpoint-rate.ts';
import { type Baseline, decline, rollBackEndpoints } from './endpoint-rollback.ts';
import { noOffers, type Offers, type ProbationOffers } from './offers.ts';
import type { ProbationRules } from './probation.ts';
import { beyondEndpoints, isMore, mustWait, quarantined } from './refusals.ts';
import { recognise } from './recognise.ts';
import { rescue } from './rescue.ts';
import { resume } from './resume.ts';
import { type Change, type Ending, rehearse, type Target, transaction } from './transaction.ts';
import { waiting } from './waiting.ts';
import { stepsOf } from './way.ts';

/** What the node's config says about taking part. */
export interface ReconcilerOptions extends AdmissionOptions {
  readonly probation: ProbationRules;
  /** So many are tried by themselves. */
  readonly releasesPerHour: number;
  /** Moves our jumps before foreign rules that take packets of Services. */
  readonly takeOrder?: boolean;
  /** How long a Service must have been without an endpoint before its last one goes; left out: not at all. */
  readonly lastEndpointAfterMs?: number;
}

/** How a bundle comes. */
interface How {
  readonly files: BundleFiles;
  readonly byHand: boolean;
  readonly offers: Offers;
  readonly onlyEndpoints: boolean;
  readonly isUrgent: boolean;
  /** How that ended which was brought of it before. */
  readonly before?: Outcome;
  readonly baseline?: Baseline | undefined;
}

/**
 * Keeps one kernel at what the journal says: finishes what a crash left, repairs what others changed, and puts bundles in, one at a
 * time. Callers never overlap two of its methods.
 */
export class Reconciler {
  readonly #ports: Ports;
  readonly #facts: () => NodeFacts;
  readonly #options: ReconcilerOptions;
  readonly #admission: Admission;
  readonly #lastEndpointDelay: LastEndpointDelay;
  readonly #early: EarlyEndpoints;
  readonly #rate = new EndpointRate();
  /** What the kernel is known to hold, from the last time it was read or written and verified. */
  #settled: NodeState | undefined;
  /** The same for mode ipvs. */
  #seen: IpvsSeen | undefined;

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
   * Finishes what a process before this one left open: the old rules come back, or the new ones when they were committed. To be
   * called first. A generation that cannot be read any more is gone around here, too.
   * @param end once it aborts, what fails is not tried again, and the next process goes on
   * @returns undefined when nothing was open
   */
  async recover(end?: AbortSignal): Promise<Outcome | undefined> {
    const { journal } = this.#ports;
    const families = familiesWithTools(this.#facts());
    const found = (await rescue(families, this.#ports)) ?? (await fallBack(families, this.#ports));
    if (found) return found;
    if (journal.halted !== undefined) return { kind: 'held', because: journal.halted, rollback: 'not tried again' };
    const ending = await resume(this.#ports, end);
    if (ending) this.#remember(ending);
    return ending?.outcome;
  }

  #remember({ settled, ipvs }: Ending): void {
    this.#settled = settled;
    this.#seen = ipvs;
  }

  /**
   * Makes the kernel hold the confirmed generation: after a boot, and whenever others changed our chains or jumps.
   * @param tables false: they are what they were, as far as anybody told; where it is known what that is, only sysctls and what mode
   *   ipvs has are looked at
   * @param interrupt when it aborts before a difference was found, the comparison is left off, where it is known what the tables hold
   * @returns how many steps it took; 0 when nothing differed
   */
  async reconcile(tables = true, interrupt?: AbortSignal): Promise<number | 'interrupted'> {
    const { journal, report } = this.#ports;
    if (journal.open || (tables && journal.lost !== undefined)) await this.recover();
    const active = journal.active;
    if (!active || journal.halted !== undefined || journal.open) return 0;
    const known = tables ? undefined : this.#settled;
    const change = await orInterrupted(this.#difference(active.state, known, this.#settled && interrupt));
    if (change === 'interrupted') return change;
    this.#seen = undefined;
    if (change.plan.steps.length === 0) {
      this.#settled = change.desired;
      await this.#dropSwitch();
      await journal.tidy();
      if (change.virtual) await this.#drain(change.virtual);
      return change.observed ? this.#keepOrder(change.observed, change.now) : 0;
    }
    report('repairing', {
      steps: change.plan.steps.length,
      chains: change.plan.touched.map(({ family, table }) => `${family} ${table}`),
    });
    this.#settled = undefined;
    this.#settled = await restore(active.state, chainNames(active.state), this.#ports);
    await this.#dropSwitch();
    await journal.tidy();
    return change.plan.steps.length;
  }

  /** What of the confirmed generation the kernel does not hold, a line for each step that would put it right; nothing is changed. */
  async differences(): Promise<readonly string[]> {
    const { active } = this.#ports.journal;
    return active ? (await this.#difference(active.state, undefined)).plan.steps.map(describeStep) : [];
  }

  /** Says which foreign rules take packets before our jumps do; where the config gives us their place, our jumps go first again. */
  async #keepOrder(observed: Observed, now: NodeState): Promise<number> {
    const order = judgeOrder(observed, now, this.#facts().addresses);
    const steps = this.#options.takeOrder ? moveFirst(order.taking, now) : [];
    for (const step of steps) await this.#ports.kernel.apply(step);
    this.#ports.report('order', steps.length > 0 ? { ...order, taking: [] } : { ...order });
    return steps.length;
  }

  /** Sets that a crash left behind, which no rule names any more. */
  async #dropSwitch(): Promise<void> {
    const { kernel } = this.#ports;
    await kernel.switch?.remove();
  }

  async #drain(virtual: Virtual): Promise<void> {
    const left = await drainVirtual(virtual, this.#ports);
    if (left > 0) this.#ports.report('drained', { realServers: left });
    else this.#seen = virtual.seen;
  }

  /** @param known what the kernel holds, where its tables need not be read */
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
    // First: the look loads the module, and with it come its sysctls.
    const virtual = await lookVirtual(desired, owned, this.#ports);
    const now = await withSysctls({ families, sysctls: new Map() }, desired, this.#ports);
    return { plan: plan(now, desired, this.#ports.kernel, virtual?.plan), desired, now, virtual, observed };
  }

  /** Whether the kernel holds no rules for Services, as after a boot. */
  async isBare(): Promise<boolean> {
    return isBare(await this.#ports.kernel.observe(familiesWithTools(this.#facts())), this.#ports);
  }

  /** @see load */
  async load(target: Generation): Promise<void> {
    this.#settled = undefined;
    return load(target, this.#ports);
  }

  /** The state as this kernel can have it, and what of it stands in the tables. */
  async #tables(
    state: NodeState,
    owned: ChainNames,
    interrupt?: AbortSignal,
  ): Promise<{ readonly desired: NodeState; readonly families: NodeState['families']; readonly observed: Observed }> {
    const observed = await this.#ports.kernel.observe(familiesOf(state), state, interrupt);
    const others = countNames(isTree(state) ? otherSluice(observed, owned) : strangers(observed, owned));
    this.#ports.report('strangers', { chains: others });
    const desired = adaptDesired(state, observed, owned, this.#ports.kernel);
    return { desired, families: ownState(observed, owned, desired), observed };
  }

  /**
   * Puts a bundle into the kernel, or says why not.
   * @param byHand a person asked for it: a version that failed before is tried again
   * @param offers what comes while it is on trial
   * @param onlyEndpoints whoever signed it may say nothing but endpoints
   * @param isUrgent whoever signed it says that it must not wait for what became of others
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
    const how = { files, byHand, offers, onlyEndpoints, isUrgent };
    if (bad !== undefined) {
      const earlyEndpoints = await this.#earlyOf(bundle, how, true);
      return earlyEndpoints?.kind === 'held'
        ? earlyEndpoints
        : { kind: 'refused', refusal: quarantined(bundle.version, bad) };
    }
    const { active: before } = journal;
    const outcome = await this.#changeFresh(bundle, how);
    this.#learn(how, before, outcome);
    return outcome;
  }

  /** `#change`, once more where what the kernel was thought to hold was out of date. */
  async #changeFresh(bundle: AdmittedBundle, how: How): Promise<Outcome> {
    const ending = await this.#change(bundle, how);
    if (!ending.stale || ending.outcome.kind !== 'rolled-back') return ending.outcome;
    // Now it is what the journal says.
    this.#remember({ outcome: ending.outcome });
    return (await this.#change(bundle, how)).outcome;
  }

  /** Whether a bundle by keys for endpoints leads anywhere that signers of releases have not named. */
  #outside({ state }: Target): Refusal | undefined {
    const { journal, networks } = this.#ports;
    return journal.active && refuseOutside(journal.active.state, state, networks?.read() ?? []);
  }

  /** What follows from how a bundle ended for those that keys for endpoints sign. */
  #learn({ files, onlyEndpoints }: How, before: Generation | undefined, outcome: Outcome): void {
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

  /** The share of all Services, 0 to 1, of which keys for endpoints have changed endpoints within the last hour. */
  get endpointShare(): number {
    const { journal, clock } = this.#ports;
    return journal.active ? this.#rate.share(journal.active.state, clock.bootMs()) : 0;
  }

  /** What arrives during a trial, checked like every bundle. */
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
          // What cannot be read must not end the trial of another bundle; it is looked at again behind it.
          this.#ports.report('endpoints-not-taken', { because: messageOf(error) });
          return undefined;
        }
      },
    };
  }

  async #change(bundle: AdmittedBundle, how: How): Promise<Ending> {
    const { byHand, offers, onlyEndpoints, before } = how;
    const known = { replacesAll: onlyEndpoints };
    let change = await this.#decide(bundle, known);
    const waits = this.#lastEndpointDelay.waits(byHand || 'problems' in change ? {} : change);
    if ('problems' in change) return { outcome: { kind: 'refused', refusal: change } };
    const isBeyond = onlyEndpoints && isMore(change);
    const baseline = how.baseline ?? (isBeyond ? undefined : await this.#baseline(change, how));
    const around = isBeyond ? undefined : await this.#early.withoutPending(how.files, bundle.version, waits.pending);
    if (around?.kind === 'held') return { outcome: around };
    if (around?.kind === 'confirmed' && !before) return this.#changeRest({ ...how, baseline }, around);
    const waitsMs = around ? waits.nextMs : waits.togetherMs;
    const isRelease = change.changeKind === 'release';
    const earlyEndpoints =
      waitsMs > 0 || isBeyond || isRelease ? await this.#earlyOf(bundle, how, isRelease) : undefined;
    if (earlyEndpoints?.kind === 'held') return { outcome: earlyEndpoints };
    if (isBeyond) return { outcome: { kind: 'refused', refusal: beyondEndpoints(bundle.version) } };
    if (waitsMs > 0) return { outcome: waiting(earlyEndpoints ?? before ?? around, change, waitsMs) };
    if (earlyEndpoints?.kind === 'confirmed' && !before) return this.#changeRest({ ...how, baseline }, earlyEndpoints);
    if (earlyEndpoints) change = await this.#decide(bundle, known);
    if ('problems' in change) return { outcome: { kind: 'refused', refusal: change } };
    const { way, from } = change;
    if (stepsOf(way).length === 0 && bundle.version === from.version) {
      this.#settled = way.desired;
      this.#early.activated(how.files, from);
      return { outcome: { kind: 'same', generation: from } };
    }
    const early = byHand ? undefined : mustWait(change, this.#options.releasesPerHour, this.#ports, how.isUrgent);
    if (early) return { outcome: { kind: 'refused', refusal: early } };
    const given = { offers: this.#forProbation(offers), baseline: baseline?.answers };
    const ending = await transaction(change, this.#options.probation, this.#ports, given);
    this.#remember(ending);
    this.#early.learn(how.files, bundle, ending);
    return baseline ? this.#afterRelease(ending, baseline) : ending;
  }

  /** Before anything of a release is in the kernel, early endpoints included: what they break must count against it. */
  async #baseline(change: Change, { byHand, isUrgent }: How): Promise<Baseline | undefined> {
    const isTried =
      change.changeKind === 'release' &&
      (byHand || !mustWait(change, this.#options.releasesPerHour, this.#ports, isUrgent));
    if (!isTried || change.from.number === 0) return undefined;
    return { answers: await this.#ports.probes.patiently(), generation: change.from };
  }

  async #afterRelease(ending: Ending, baseline: Baseline): Promise<Ending> {
    const { outcome, failed } = ending;
    if (outcome.kind === 'confirmed') decline(new Map(), this.#ports);
    if (outcome.kind !== 'rolled-back' || failed !== 'health') return ending;
    const update = async (target: Target): Promise<Outcome | undefined> => {
      const change = await this.#decide(target, { changeKind: 'endpoints' });
      return 'problems' in change ? undefined : (await this.#carryOut(change)).outcome;
    };
    return { ...ending, outcome: await rollBackEndpoints(outcome.because, baseline, { ports: this.#ports, update }) };
  }

  /** An update, which is not tried. What the kernel was thought to hold may be out of date: then it is read, once. */
  async #carryOut(change: Change): Promise<Ending> {
    const ending = await transaction(change, this.#options.probation, this.#ports);
    const isStale = ending.stale === true && ending.outcome.kind === 'rolled-back';
    this.#remember(isStale ? { outcome: ending.outcome } : ending);
    const again = isStale ? await this.#decide(change.bundle, { changeKind: change.changeKind }) : undefined;
    return again && !('problems' in again) ? this.#carryOut(again) : ending;
  }

  /** What else of a bundle may go in now. Names of chains that were given while another program stood may be taken: it is linked anew. */
  async #changeRest(how: How, before: Outcome): Promise<Ending> {
    const bundle = await this.#admission.of(how.files);
    return isRefusal(bundle)
      ? { outcome: { kind: 'refused', refusal: bundle } }
      : this.#change(bundle, { ...how, before });
  }

  /**
   * What may come of a bundle before the rest of it.
   * @param withFirst the first endpoints of Services, too; keys for endpoints bring none
   */
  async #earlyOf(bundle: Target, { files, onlyEndpoints }: How, withFirst: boolean): Promise<Outcome | undefined> {
    const first = withFirst && !onlyEndpoints ? await this.#early.firstEndpoints(files, bundle) : undefined;
    if (first?.kind === 'held') return first;
    const rest = first ? await this.#admission.of(files) : bundle;
    return ('problems' in rest ? undefined : await this.#early.endpoints(rest)) ?? first;
  }

  async #decide(bundle: Target, known: Known = {}): Promise<Change | Refusal> {
    const startState = await this.#startState(bundle);
    return 'problems' in startState ? startState : decideChange(bundle, startState, this.#ports, known);
  }

  /**
   * Says whether the kernel would take a bundle, and changes nothing that packets meet.
   * @returns `same` when it is the version that stands
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

  /** What `put` would do, without doing it. */
  async preview(files: BundleFiles, onlyEndpoints = false): Promise<Change | Refusal> {
    const bundle = await this.#admission.of(files);
    if (isRefusal(bundle)) return bundle;
    const outside = onlyEndpoints ? this.#outside(bundle) : undefined;
    if (outside) return outside;
    const change = await this.#decide(bundle, { replacesAll: onlyEndpoints });
    return onlyEndpoints && !('problems' in change) && isMore(change) ? beyondEndpoints(bundle.version) : change;
  }

  /** What stands before the change: known from before, or read. */
  async #startState({ state }: Target): Promise<StartState | Refusal> {
    const { active } = this.#ports.journal;
    if (active && this.#settled && knowsStartState(state, active)) {
      return { from: active, now: this.#settled, ...(this.#seen ? { ipvs: this.#seen } : {}) };
    }
    const looked = this.#admission.takeLooked();
    return readStartState(state, this.#facts(), { takeOver: this.#options.takeOver, looked }, this.#ports);
  }

  /**
   * Takes over what the kernel holds of Sluice, for a node that lost its state directory; no rule changes.
   * @returns the generation that stands from now on, or why there is none
   */
  async recognise(): Promise<Generation | Refusal> {
    const { journal } = this.#ports;
    const state = await recognise(this.#facts(), this.#ports);
    if ('problems' in state) return state;
    return journal.recognised(state, 'the state directory was lost; these rules were in the kernel');
  }

  /** `cleanUp`. */
  async cleanup(): Promise<number> {
    this.#settled = undefined;
    return cleanUp(this.#ports);
  }

  /** `rollBackTo`. */
  async backTo(target: Generation, options: RollBackOptions = {}): Promise<Outcome> {
    this.#settled = undefined;
    const ending = await rollBackTo(target, options, this.#ports);
    this.#remember(ending);
    return ending.outcome;
  }
}
