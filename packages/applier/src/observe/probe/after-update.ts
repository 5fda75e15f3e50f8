import { limits } from '../../limits.ts';
import { messageOf } from '../../message.ts';
import type { Clock } from '../../ports/clock.ts';
import type { ProbeResult, UpdateWatch } from '../../ports/probes.ts';
import type { ConfiguredProbes } from './probes.ts';

/** What it works with. */
export interface AfterUpdateDependencies {
  readonly probes: Pick<ConfiguredProbes, 'policies' | 'intervalMs' | 'glance' | 'untilVerdict'>;
  readonly clock: Pick<Clock, 'sleep' | 'bootMs'>;
  /**
   * Why the rules in the kernel are not known to be those of the active generation; undefined: they are. Reads all of them, changes and
   * remembers nothing: it runs beside changes.
   */
  readonly unknownRules: () => Promise<string | undefined>;
  /** Called when a probe that passed before an update fails after it, and with undefined when all of these pass again. */
  readonly alarm: (why: string | undefined) => void;
}

/**
 * Watches probes after endpoint updates, which are applied without probation, within a second, so that no probe can stop them. Names the
 * update that broke a probe, and retries the probe until it passes.
 *
 * An answer is about the rules that it was given on. Of a probe that begins to fail it is asked whether they were right: where another program
 * has removed them, no update is named for it, nor is the probe taken for one that failed before.
 */
export class AfterUpdate implements UpdateWatch {
  readonly #parts: AfterUpdateDependencies;
  /** The probes that passed before an update, with the Services and endpoints of the first update since. */
  readonly #suspects = new Map<string, () => string>();
  /** The probes that fail, on rules that were right when they began to. */
  readonly #failing = new Set<string>();
  #isWatching = false;
  #isAlarming = false;
  /** When the last round began. */
  #askedMs = -Infinity;
  /** The last verdict on all probes, and its time. */
  #last: { readonly good: readonly string[]; readonly atMs: number } | undefined;

  constructor(parts: AfterUpdateDependencies) {
    this.#parts = parts;
  }

  /** Many updates a second do not start more probes than their interval allows. */
  async before(): Promise<readonly string[]> {
    const { probes, clock } = this.#parts;
    if (probes.policies.length === 0) return [];
    if (!this.#last || clock.bootMs() - this.#last.atMs >= probes.intervalMs)
      await this.#learn(await probes.glance(limits.glanceMs));
    return this.#last?.good ?? [];
  }

  after(good: readonly string[], changes: () => string): void {
    for (const name of good) if (!this.#suspects.has(name)) this.#suspects.set(name, changes);
    if (this.#suspects.size === 0 || this.#isWatching) return;
    this.#isWatching = true;
    void this.#watch();
  }

  /** One loop for all updates: later ones are judged by its next round. */
  async #watch(): Promise<void> {
    const { probes, clock } = this.#parts;
    while (this.#suspects.size > 0) {
      const restMs = this.#askedMs + probes.intervalMs - clock.bootMs();
      if (restMs > 0) await clock.sleep(restMs);
      this.#askedMs = clock.bootMs();
      const tried = new Map(this.#suspects);
      try {
        await this.#judge(tried, await probes.untilVerdict());
      } catch (error) {
        this.#raise(`Cannot probe after an endpoint update: ${messageOf(error)}`);
      }
    }
    this.#isWatching = false;
  }

  async #judge(tried: ReadonlyMap<string, () => string>, answers: readonly ProbeResult[]): Promise<void> {
    // They are probed again on the rules that drift repair puts back.
    if (!(await this.#learn(answers))) return;
    const bad = answers.filter(({ name, healthy }) => !healthy && tried.has(name));
    // A probe with another update meanwhile is tried again.
    for (const [name, changes] of tried)
      if (!bad.some((one) => one.name === name) && this.#suspects.get(name) === changes) this.#suspects.delete(name);
    // Text instead of a closure: a replaced program must not stay in memory while its probe fails.
    for (const { name } of bad) {
      const text = tried.get(name)?.() ?? '';
      this.#suspects.set(name, () => text);
    }
    const [first] = bad;
    if (first) {
      const names = bad.map(({ name, seen }) => `${name} (${seen})`).join(', ');
      this.#raise(`${names} fails since an endpoint update: ${this.#suspects.get(first.name)?.()}`);
    } else if (this.#isAlarming) {
      this.#isAlarming = false;
      this.#parts.alarm(undefined);
    }
  }

  #raise(why: string): void {
    this.#isAlarming = true;
    this.#parts.alarm(why);
  }

  /** @returns whether the answers are about rules that are right; else probes that begin to fail count as before */
  async #learn(answers: readonly ProbeResult[]): Promise<boolean> {
    const bad = answers.filter(({ healthy }) => !healthy).map(({ name }) => name);
    const isNew = bad.some((name) => !this.#failing.has(name));
    const isKnown = !isNew || (await this.#parts.unknownRules()) === undefined;
    for (const { name, healthy } of answers) {
      if (healthy) this.#failing.delete(name);
      else if (isKnown) this.#failing.add(name);
    }
    const good = answers.filter(({ name }) => !this.#failing.has(name)).map(({ name }) => name);
    this.#last = { good, atMs: this.#parts.clock.bootMs() };
    return isKnown;
  }
}
