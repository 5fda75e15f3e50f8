import { limits } from '../../limits.ts';
import { messageOf } from '../../message.ts';
import type { Kernel } from '../../ports/kernel.ts';
import type { ProbationProgress, ReportedProbe } from '../../ports/operator.ts';
import type { Ports } from '../../ports/ports.ts';
import type { ProbePolicy, ProbeResult } from '../../ports/probes.ts';
import { type Deadman, Expired } from './deadman.ts';
import { isOfSurroundings } from '../../ports/failure.ts';
import { meanwhile, type ProbationOffers } from './offers.ts';
import { decidePartial, type FailedProbe } from '../partial/decide.ts';
import type { QuarantinedService } from '../../ports/journal.ts';
import type { PlannedChange, RollbackReason } from './planned-change.ts';
import { rollBackServices } from './roll-back-services.ts';
import { foreignDifference, leadDifference } from './verify.ts';
import { takeUpdate, updateOf } from './update.ts';
import type { TransactionPlan } from '../plan/transaction-plan.ts';
import { nodePlaneOf } from '../planes/planes.ts';

/** The settings of probation in the node's config. */
export interface ProbationRules {
  /** How long probes must pass. Without probes it does not wait: one check of the kernel is enough. */
  readonly seconds: number;
  /** How long the kernel stays on the new rules without a heartbeat. */
  readonly deadmanSeconds: number;
  /** `manual`: passing probes are not enough, the operator confirms. */
  readonly mode: 'auto' | 'manual';
  /** How long `manual` waits for the operator. */
  readonly decisionSeconds: number;
  /** Networks whose packets meet the new rules; none: all packets do. */
  readonly sources: readonly string[];
  /** Services whose probes fail are rolled back alone, where that is possible (`decidePartial`); left out: never. */
  readonly perService?: boolean;
}

/** Input of a probation besides the change. */
interface ProbationDependencies {
  readonly rules: ProbationRules;
  readonly deadman: Deadman;
  /** Left out: no bundles arrive meanwhile. */
  readonly offers?: ProbationOffers | undefined;
}

/**
 * Decides whether a release in probation stays or is rolled back: it stays while the kernel holds its rules, no probe that passed before
 * fails, the operator does not cancel. Each good round renews the dead-man switch. Newer endpoints go in without waiting for its end. A
 * process that is asked to end rolls the release back without blame: the next process tries it again, with a whole probation.
 *
 * With `perService`, Services whose probes fail return to the old rules, and the rest stays on probation: until its end, and until these
 * probes have passed as often as their policy asks.
 */
export class ProbationWatch {
  #change: PlannedChange;
  readonly #parts: ProbationDependencies;
  readonly #ports: Ports;
  readonly #judge: ProbeJudge;
  readonly #startMs: number;
  #answers: readonly ProbeResult[] = [];
  #seconds: number;
  #decisionSeconds: number;
  /** Confirmed by the operator, or needs no confirmation. */
  #confirmed: boolean;
  #isConfirmedByOperator = false;
  #lookedMs = -Infinity;
  #quarantine: readonly QuarantinedService[] = [];

  constructor(change: PlannedChange, baseline: readonly ProbeResult[], parts: ProbationDependencies, ports: Ports) {
    const { rules } = parts;
    this.#change = change;
    this.#parts = parts;
    this.#ports = ports;
    this.#judge = new ProbeJudge(ports.probes.policies, baseline);
    this.#startMs = ports.clock.bootMs();
    this.#seconds = ports.probes.policies.length === 0 ? 0 : rules.seconds;
    this.#decisionSeconds = rules.decisionSeconds;
    this.#confirmed = rules.mode === 'auto';
  }

  /** The change with the newer endpoints that went in so far. */
  get change(): PlannedChange {
    return this.#change;
  }

  /** The probes whose last answer was bad. If probation passed, they failed before the release, too. */
  get failing(): readonly string[] {
    return this.#answers.filter(({ healthy }) => !healthy).map(({ name }) => name);
  }

  /** The versions of Services that were rolled back. */
  get quarantine(): readonly QuarantinedService[] {
    return this.#quarantine;
  }

  /** @returns why the release must be rolled back; undefined when it passed */
  async run(): Promise<RollbackReason | undefined> {
    const { clock, probes, operator } = this.#ports;
    operator.shows(() => this.progress);
    try {
      for (;;) {
        const ending = await this.#round();
        if (ending === 'passed') return undefined;
        if (ending) return ending;
        await this.#parts.deadman.renew();
        await this.#meanwhile(clock.sleep(Math.min(probes.intervalMs, this.#parts.deadman.restMs)));
        await this.#parts.deadman.renew();
      }
    } catch (error) {
      // A process that was stopped, or whose tools were slow, says nothing about the release.
      const isBlameless = error instanceof Expired || isOfSurroundings(error);
      return { kind: isBlameless ? 'surroundings' : 'process', because: messageOf(error) };
    } finally {
      // A watch holds whole programs, which must not stay in memory.
      operator.shows(undefined);
    }
  }

  /** What the operator sees of it now. */
  get progress(): ProbationProgress {
    const { clock } = this.#ports;
    const at = (bootMs: number): string => new Date(clock.now() + bootMs - clock.bootMs()).toISOString();
    const { deadlineMs } = this.#parts.deadman;
    return {
      since: at(this.#startMs),
      ends: at(this.#startMs + this.#seconds * 1000),
      confirmBy: this.#confirmed ? null : at(this.#startMs + this.#decisionSeconds * 1000),
      deadman: deadlineMs === undefined ? null : at(deadlineMs),
      probes: this.#answers.map((answer) => this.#judge.reportOf(answer)),
      sources: this.#parts.rules.sources,
      without: this.#quarantine.map(({ service }) => service),
    };
  }

  async #meanwhile<T>(work: Promise<T>): Promise<T> {
    const { offers } = this.#parts;
    if (!offers) return work;
    return meanwhile(
      work,
      () => offers.arrival(),
      () => this.#take(offers),
    );
  }

  async #take(offers: ProbationOffers): Promise<void> {
    const offered = await offers.take();
    const update = offered && (await updateOf(this.#change, offered, this.#ports));
    if (update) this.#change = await takeUpdate(this.#change, update, this.#ports);
    await this.#parts.deadman.renew();
  }

  async #round(): Promise<'passed' | RollbackReason | undefined> {
    const { probes, clock, report } = this.#ports;
    const cancelled = await this.#takeDecision();
    if (cancelled) return cancelled;
    if (this.#parts.offers?.isEnding()) return { kind: 'asked', because: 'sluiced was stopped during probation' };
    const answers = await this.#parts.deadman.during(() => this.#meanwhile(probes.once()));
    this.#judge.add(answers);
    this.#answers = answers;
    report('probation', { seconds: Math.round(this.#elapsedMs / 1000), of: this.#seconds, probes: answers });
    const regression = this.#judge.regression;
    if (regression !== undefined) return this.#regressed(`health failed: ${regression}`);
    const isJudged = this.#judge.isGood && (this.#judge.isCertain || this.#isConfirmedByOperator);
    const isDue = this.#elapsedMs >= this.#seconds * 1000 && isJudged && this.#confirmed;
    if (isDue || clock.bootMs() - this.#lookedMs >= limits.invariantIntervalMs) {
      const difference = await invariant(this.#change.plan, this.#ports.kernel);
      if (difference !== undefined) return foreign(difference);
      this.#lookedMs = clock.bootMs();
    }
    if (isDue) return 'passed';
    if (!this.#confirmed && this.#elapsedMs >= this.#decisionSeconds * 1000) {
      return { kind: 'operator', because: `not confirmed within ${this.#decisionSeconds} s` };
    }
    return undefined;
  }

  /** @returns why all of the release must be rolled back; undefined when single Services were */
  async #regressed(because: string): Promise<RollbackReason | undefined> {
    const { failed } = this.#judge;
    if (this.#parts.rules.perService !== true || failed.every(({ service }) => service === undefined))
      return { kind: 'health', because };
    const { from, bundle, plan } = this.#change;
    // What fails is judged by all of the rules: another program may have removed those of one Service.
    const whole = (): Promise<string | undefined> => foreignDifference(plan, this.#ports.kernel);
    const difference = (await invariant(plan, this.#ports.kernel)) ?? (await this.#parts.deadman.during(whole));
    if (difference !== undefined) return foreign(difference);
    const decision = decidePartial({ from, bundle, flip: plan.flip, failed, because });
    if (decision.kind === 'all')
      return { kind: 'health', because: `${because}; not rolled back by Service: ${decision.why}` };
    try {
      const work = (): Promise<PlannedChange> => rollBackServices(this.#change, decision, this.#ports);
      this.#change = await this.#parts.deadman.during(work);
    } catch (error) {
      return { kind: 'health', because: `${because}; not rolled back by Service: ${messageOf(error)}` };
    }
    this.#quarantine = [...this.#quarantine, ...decision.quarantine];
    this.#judge.forget(decision.services);
    return undefined;
  }

  get #elapsedMs(): number {
    return this.#ports.clock.bootMs() - this.#startMs;
  }

  async #takeDecision(): Promise<RollbackReason | undefined> {
    const decision = await this.#ports.operator.ask();
    if (decision) this.#ports.report('operator', { ...decision });
    if (decision?.kind === 'cancel') return { kind: 'operator', because: 'cancelled by the operator' };
    if (decision?.kind === 'extend') {
      this.#seconds = Math.ceil(this.#elapsedMs / 1000) + decision.seconds;
      this.#decisionSeconds = Math.max(this.#decisionSeconds, this.#seconds);
    }
    if (decision?.kind === 'confirm') {
      this.#confirmed = true;
      this.#isConfirmedByOperator = true;
      this.#seconds = 0;
    }
    return undefined;
  }
}

/** A release is not to blame for what happens on rules that are not its own. */
export const foreign = (difference: string): RollbackReason => ({
  kind: 'surroundings',
  because: `another program changed the rules: ${difference}`,
});

/** Counts the bad answers of each probe that was good before the change. */
class ProbeJudge {
  readonly #policies: ReadonlyMap<string, ProbePolicy>;
  /** The last answers of each probe, the newest last. */
  readonly #answers = new Map<string, readonly ProbeResult[]>();

  constructor(policies: readonly ProbePolicy[], baseline: readonly ProbeResult[]) {
    const good = new Set(baseline.filter(({ healthy }) => healthy).map(({ name }) => name));
    this.#policies = new Map(policies.filter(({ name }) => good.has(name)).map((policy) => [policy.name, policy]));
  }

  add(answers: readonly ProbeResult[]): void {
    for (const answer of answers) {
      const window = this.#policies.get(answer.name)?.window;
      if (window === undefined) continue;
      this.#answers.set(answer.name, [...(this.#answers.get(answer.name) ?? []), answer].slice(-window));
    }
  }

  /** The failed probes, each with its last answer; undefined when there are none. */
  get regression(): string | undefined {
    const { failed } = this;
    if (failed.length === 0) return undefined;
    return failed
      .map(({ name }) => {
        const answers = this.#answers.get(name) ?? [];
        return `${name} (${describeFailures(this.#badOf(name), answers.length)})`;
      })
      .join(', ');
  }

  get failed(): readonly FailedProbe[] {
    return [...this.#policies.values()].filter(({ name, failures }) => this.#badOf(name).length >= failures);
  }

  #badOf(name: string): readonly ProbeResult[] {
    return (this.#answers.get(name) ?? []).filter(({ healthy }) => !healthy);
  }

  /** An answer, with what it means for the release. */
  reportOf(answer: ProbeResult): ReportedProbe {
    const policy = this.#policies.get(answer.name);
    const bad = policy ? this.#badOf(answer.name).length : 0;
    return { ...answer, bad, allowed: policy?.failures ?? 0, counts: policy !== undefined };
  }

  /** The probes of these Services are judged again: their answers were about other rules. */
  forget(services: readonly string[]): void {
    for (const { name, service } of this.#policies.values())
      if (service !== undefined && services.includes(service)) this.#answers.delete(name);
  }

  /** Whether no probe can fail within its first window any more: the same rule as for the baseline. */
  get isCertain(): boolean {
    return [...this.#policies.values()].every(({ name, window, failures }) => {
      const answers = this.#answers.get(name) ?? [];
      const bad = answers.filter(({ healthy }) => !healthy).length;
      return window - answers.length + bad < failures;
    });
  }

  /** Whether the last answer of every probe that counts was good. */
  get isGood(): boolean {
    return [...this.#policies.keys()].every((name) => this.#answers.get(name)?.at(-1)?.healthy === true);
  }
}

function describeFailures(bad: readonly ProbeResult[], tries: number): string {
  const seen = bad.at(-1)?.seen ?? '';
  return tries === 1 ? seen : `failed ${bad.length} of ${tries} times, the last: ${seen}`;
}

/**
 * Checks that the switch is on, and that the entry chains are as loaded or the table of mode nftables is there. Cheap: it reads few chains.
 * @returns what is wrong
 */
async function invariant(plan: TransactionPlan, kernel: Kernel): Promise<string | undefined> {
  if (plan.flip === 'switch') {
    const switchStates = await kernel.switch?.look();
    if (switchStates?.nat !== 'on' || switchStates.filter !== 'on')
      return `the switch is ${switchStates?.nat ?? 'missing'}`;
    // Then its table is there, and that is all that leads to the release.
    if (nodePlaneOf(plan.desired).hasOwnTable) return undefined;
  }
  return leadDifference(plan.afterCutOver, kernel);
}
