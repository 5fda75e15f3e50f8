import type { Change, ChangeWatch } from './kernel/changes.ts';
import { limits } from './limits.ts';

/**
 * Decides when the tables are compared: soon after an event, whatever others write never so often that it takes more than a small part
 * of the time; and now and then though nobody told of a change, so rarely that it is hardly noticed on a node with many rules.
 */
export class Drift {
  readonly #watch: ChangeWatch;
  readonly #monotonicMs: () => number;
  /** What others did since the last comparison, one entry for each of them; undefined: nobody was heard of. */
  #heard: readonly Change[] | undefined;
  #restUntilMs = -Infinity;
  /** When all comparisons of before have paid for themselves. */
  #paidMs = -Infinity;
  #knownUntilMs = -Infinity;
  /** When the tables were last known to hold what they should. */
  #rightMs: number;
  /** Between two looks, where there are some, and between two comparisons. */
  #lookPauseMs = 0;
  #comparePauseMs = 0;
  /** When a comparison first stepped aside, if none was made since. */
  #asideSinceMs: number | undefined;

  constructor(watch: ChangeWatch, monotonicMs: () => number) {
    this.#watch = watch;
    this.#monotonicMs = monotonicMs;
    this.#rightMs = monotonicMs();
  }

  /** Somebody else changed something. */
  heard({ by, what, isDoubt }: Change): void {
    if (this.#isSure) this.#rightMs = this.#monotonicMs();
    const others = this.#heard ?? [];
    const known = others.find((one) => one.by === by && one.isDoubt === isDoubt);
    const all = [...(known?.what ?? []), ...what].slice(0, limits.changesToldMax);
    const change = { by, what: all, ...(isDoubt ? { isDoubt } : {}) };
    if (known) this.#heard = others.map((one) => (one === known ? change : one));
    else this.#heard = [...others, change].slice(0, limits.changesToldMax);
  }

  /** Whether somebody was seen to change something, and not only nobody knows. */
  get #isSeen(): boolean {
    return this.#heard?.some(({ isDoubt }) => isDoubt !== true) === true;
  }

  /** Events tell of everything, and told of nothing. */
  get #isSure(): boolean {
    return this.#watch.dueMs === Infinity && this.#heard === undefined;
  }

  /**
   * For how long nobody has seen that the tables hold what they should, in milliseconds; undefined while that is not too long. Where
   * events tell of every change, silence is as good as a look.
   */
  get unseenMs(): number | undefined {
    if (this.#isSure) return undefined;
    const pauseMs = Math.max(this.#lookPauseMs, this.#comparePauseMs);
    const ageMs = this.#monotonicMs() - this.#rightMs;
    return ageMs > Math.max(limits.unseenMsMax, pauseMs * limits.unseenPausesMax) ? ageMs : undefined;
  }

  /** The tables were seen to hold what they should, as after a change, which reads back what it wrote. */
  saw(): void {
    this.#rightMs = this.#monotonicMs();
  }

  /** When `look` is to be called next. */
  get dueMs(): number {
    return this.#heard ? this.#restUntilMs : this.#watch.dueMs;
  }

  /** Whether a scan has to compare the tables: something was heard, or they were compared too long ago. */
  get isDue(): boolean {
    const isHeard = this.#heard !== undefined && this.#monotonicMs() >= this.#restUntilMs;
    return this.#isSeen || isHeard || this.#monotonicMs() >= this.#knownUntilMs;
  }

  /** @returns whether a comparison is due now */
  async look(): Promise<boolean> {
    if (!this.#heard && this.#monotonicMs() >= this.#watch.dueMs) {
      const change = await this.#watch.look();
      if (change) this.heard(change);
      else this.saw();
      this.#lookPauseMs = this.#watch.dueMs === Infinity ? 0 : this.#watch.dueMs - this.#monotonicMs();
    }
    return this.#heard !== undefined && this.#monotonicMs() >= this.#restUntilMs;
  }

  /** Whether a comparison may step aside for something more urgent: nobody was seen to change anything, and it has not done so for long. */
  get canWait(): boolean {
    const sinceMs = this.#asideSinceMs ?? this.#monotonicMs();
    return !this.#isSeen && this.#monotonicMs() - sinceMs < limits.compareLateMsMax;
  }

  /** A comparison stepped aside: the next scan makes it. */
  wasInterrupted(): void {
    this.#asideSinceMs ??= this.#monotonicMs();
    this.doubted();
  }

  /** A comparison begins. @returns what others did until now; what is heard from now on asks for another one */
  take(): readonly Change[] {
    const heard = this.#heard ?? [];
    this.#heard = undefined;
    return heard;
  }

  /** Sluice has changed the tables itself. */
  wrote(): void {
    this.#watch.forget();
  }

  /**
   * Everything was compared, and is right.
   * @param usedMs what of a processor that took
   * @param steps how many it took to put the tables right
   */
  compared(usedMs: number, steps: number): void {
    this.#asideSinceMs = undefined;
    if (steps > 0) this.wrote();
    this.saw();
    this.#pay(usedMs);
    // What a repair took says nothing of a comparison: the next scan makes one and finds out.
    const againMs = steps > 0 ? 0 : Math.min(usedMs * limits.compareAgainFactor, limits.compareAgainMsMax);
    this.#knownUntilMs = this.#monotonicMs() + againMs;
  }

  /**
   * A comparison or a repair did not end well. It is made again like any other, after a pause: what fails is not cheaper.
   * @param usedMs what of a processor it took to fail
   */
  failed(usedMs: number): void {
    this.#pay(usedMs);
    this.doubted();
  }

  /** It is not known what the tables hold: the next scan compares them. */
  doubted(): void {
    this.#knownUntilMs = -Infinity;
  }

  /** A few comparisons may follow each other at once; over a longer time they pay for themselves. */
  #pay(usedMs: number): void {
    const nowMs = this.#monotonicMs();
    const costMs = usedMs * limits.comparePauseFactor;
    this.#comparePauseMs = costMs;
    // Bounded: what was spent in a bad hour must not keep the next repair waiting.
    this.#paidMs = Math.min(Math.max(this.#paidMs, nowMs) + costMs, nowMs + costMs * limits.comparisonsAtOnce);
    this.#restUntilMs = Math.max(nowMs + limits.comparePauseMs, this.#paidMs - costMs * (limits.comparisonsAtOnce - 1));
  }
}
