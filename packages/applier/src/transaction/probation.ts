import { limits } from '../limits.ts';
import { messageOf } from '../rollout/message.ts';
import type { Kernel, Ports, ProbePolicy, ProbeResult } from '../rollout/ports.ts';
import { familiesOf } from '../rollout/state.ts';
import type { Deadman } from './deadman.ts';
import { meanwhile, type ProbationOffers } from './offers.ts';
import type { Change, Failure } from './transaction.ts';
import { entriesDiffer } from './roots-hold.ts';
import { takeUpdate, updateOf } from './update.ts';
import type { Way } from './way.ts';

/** What the node's config says about a trial. */
export interface ProbationRules {
  /** How long probes must stay good. Without probes there is nothing to wait for, and one look at the kernel is enough. */
  readonly seconds: number;
  /** How long the kernel stays on the trial without a sign of life. */
  readonly deadmanSeconds: number;
  /** `manual`: good probes are not enough, a person confirms. */
  readonly mode: 'auto' | 'manual';
  /** How long `manual` waits. */
  readonly decisionSeconds: number;
  /** Networks whose packets take part; none: everybody. */
  readonly sources: readonly string[];
}

/** What a trial goes by. */
export interface ProbationParts {
  readonly rules: ProbationRules;
  readonly deadman: Deadman;
  /** Left out: nothing comes meanwhile. */
  readonly offers?: ProbationOffers | undefined;
}

/**
 * Watches a program on trial: the kernel is what was meant, no probe that was good is bad, nobody cancels. Each good round renews the
 * dead-man. Newer endpoints do not wait for the end. A process that is asked to end takes the release back, without blame, rather than
 * to leave it with half a judgement: the next process tries it again.
 */
export class Probation {
  #change: Change;
  readonly #deadman: Deadman;
  readonly #offers: ProbationOffers | undefined;
  readonly #ports: Ports;
  readonly #judge: ProbeJudge;
  readonly #startMs: number;
  #seconds: number;
  /** How long a person has to confirm it. */
  #decisionSeconds: number;
  #confirmed: boolean;
  /** A person has confirmed it. */
  #hasSpoken = false;
  #lookedMs = -Infinity;
  #failing: readonly string[] = [];

  constructor(
    change: Change,
    baseline: readonly ProbeResult[],
    { rules, deadman, offers }: ProbationParts,
    ports: Ports,
  ) {
    this.#change = change;
    this.#deadman = deadman;
    this.#offers = offers;
    this.#ports = ports;
    this.#judge = new ProbeJudge(ports.probes.policies, baseline);
    this.#startMs = ports.clock.bootMs();
    this.#seconds = ports.probes.policies.length === 0 ? 0 : rules.seconds;
    this.#decisionSeconds = rules.decisionSeconds;
    this.#confirmed = rules.mode === 'auto';
  }

  /** The change with the endpoints that were taken so far. */
  get change(): Change {
    return this.#change;
  }

  /** The probes of which the last answer was bad: when the trial passed, these failed before it, too. */
  get failing(): readonly string[] {
    return this.#failing;
  }

  /** Returns why the trial failed, or undefined when it passed. */
  async run(): Promise<Failure | undefined> {
    const { clock, probes } = this.#ports;
    try {
      for (;;) {
        const ending = await this.#round();
        if (ending === 'passed') return undefined;
        if (ending) return ending;
        await this.#deadman.renew();
        await this.#meanwhile(clock.sleep(Math.min(probes.intervalMs, this.#deadman.restMs)));
        await this.#deadman.renew();
      }
    } catch (error) {
      return { kind: 'process', because: messageOf(error) };
    }
  }

  async #meanwhile<T>(work: Promise<T>): Promise<T> {
    const offers = this.#offers;
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
    await this.#deadman.renew();
  }

  async #round(): Promise<'passed' | Failure | undefined> {
    const { probes, clock, report } = this.#ports;
    const said = await this.#hear();
    if (said) return said;
    if (this.#offers?.isEnding()) return { kind: 'asked', because: 'sluiced was asked to end the trial' };
    const answers = await this.#deadman.during(() => this.#meanwhile(probes.once()));
    this.#judge.hear(answers);
    this.#failing = answers.filter(({ healthy }) => !healthy).map(({ name }) => name);
    report('probation', { seconds: Math.round(this.#elapsedMs / 1000), of: this.#seconds, probes: answers });
    const regression = this.#judge.regression;
    if (regression !== undefined) return { kind: 'health', because: `health failed: ${regression}` };
    const isJudged = this.#judge.isGood && (this.#judge.isCertain || this.#hasSpoken);
    const isDue = this.#elapsedMs >= this.#seconds * 1000 && isJudged && this.#confirmed;
    if (isDue || clock.bootMs() - this.#lookedMs >= limits.invariantIntervalMs) {
      const difference = await invariant(this.#change.way, this.#ports.kernel);
      if (difference !== undefined)
        return { kind: 'process', because: `somebody else changed the kernel: ${difference}` };
      this.#lookedMs = clock.bootMs();
    }
    if (isDue) return 'passed';
    if (!this.#confirmed && this.#elapsedMs >= this.#decisionSeconds * 1000) {
      return { kind: 'person', because: `nobody confirmed it within ${this.#decisionSeconds} s` };
    }
    return undefined;
  }

  get #elapsedMs(): number {
    return this.#ports.clock.bootMs() - this.#startMs;
  }

  async #hear(): Promise<Failure | undefined> {
    const said = await this.#ports.person.ask();
    if (said) this.#ports.report('person', { ...said });
    if (said?.kind === 'cancel') return { kind: 'person', because: 'a person cancelled it' };
    if (said?.kind === 'extend') {
      this.#seconds = Math.ceil(this.#elapsedMs / 1000) + said.seconds;
      this.#decisionSeconds = Math.max(this.#decisionSeconds, this.#seconds);
    }
    if (said?.kind === 'confirm') {
      this.#confirmed = true;
      this.#hasSpoken = true;
      this.#seconds = 0;
    }
    return undefined;
  }
}

/** Counts the bad answers of each probe that was good before the change. */
export class ProbeJudge {
  readonly #policies: ReadonlyMap<string, ProbePolicy>;
  /** The last answers of each probe, the newest last. */
  readonly #answers = new Map<string, readonly ProbeResult[]>();

  constructor(policies: readonly ProbePolicy[], baseline: readonly ProbeResult[]) {
    const good = new Set(baseline.filter(({ healthy }) => healthy).map(({ name }) => name));
    this.#policies = new Map(policies.filter(({ name }) => good.has(name)).map((policy) => [policy.name, policy]));
  }

  hear(answers: readonly ProbeResult[]): void {
    for (const answer of answers) {
      const window = this.#policies.get(answer.name)?.window;
      if (window === undefined) continue;
      this.#answers.set(answer.name, [...(this.#answers.get(answer.name) ?? []), answer].slice(-window));
    }
  }

  /** The probes that count as failed, each with what was seen last; undefined when there are none. */
  get regression(): string | undefined {
    const failed = [...this.#policies.values()].flatMap(({ name, failures }) => {
      const answers = this.#answers.get(name) ?? [];
      const bad = answers.filter(({ healthy }) => !healthy);
      return bad.length >= failures ? [`${name} (${told(bad, answers.length)})`] : [];
    });
    return failed.length === 0 ? undefined : failed.join(', ');
  }

  /** Whether no probe that counts could fail within its first window any more: the same rule as before the change. */
  get isCertain(): boolean {
    return [...this.#policies.values()].every(({ name, window, failures }) => {
      const answers = this.#answers.get(name) ?? [];
      const bad = answers.filter(({ healthy }) => !healthy).length;
      return window - answers.length + bad < failures;
    });
  }

  /** Whether every probe that counts was good the last time. */
  get isGood(): boolean {
    return [...this.#policies.keys()].every((name) => this.#answers.get(name)?.at(-1)?.healthy === true);
  }
}

function told(bad: readonly ProbeResult[], tries: number): string {
  const seen = bad.at(-1)?.seen ?? '';
  return tries === 1 ? seen : `failed ${bad.length} of ${tries} times, the last: ${seen}`;
}

/** Where the kernel is not what the trial needs: the switch on, entry chains as they were loaded. Cheap: it reads few chains. */
export async function invariant(way: Way, kernel: Kernel): Promise<string | undefined> {
  if (way.flip === 'switch') {
    const switchStates = await kernel.switch?.look();
    if (switchStates?.nat !== 'on' || switchStates.filter !== 'on')
      return `the switch is ${switchStates?.nat ?? 'not there'}`;
  }
  for (const family of familiesOf(way.turned)) {
    for (const table of ['nat', 'filter'] as const) {
      const difference = await entriesDiffer(way.turned, { family, table }, kernel);
      if (difference !== undefined) return difference;
    }
  }
  return undefined;
}
