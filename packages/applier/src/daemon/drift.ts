import type { ForeignChange, ChangeWatch } from '../kernel/changes/foreign-change.ts';
import { limits, paces, pauseAfter } from '../limits.ts';

/**
 * Decides when the tables are compared: soon after a change event, limited to a small share of the time however often other programs write;
 * and periodically without events, so rarely that a node with many rules does not notice.
 */
export class Drift {
  readonly #watch: ChangeWatch;
  readonly #monotonicMs: () => number;
  /** Changes by other programs since the last comparison, one entry per program; undefined: none. */
  #changes: readonly ForeignChange[] | undefined;
  #restUntilMs = -Infinity;
  /** When all earlier comparisons are paid for by pauses. */
  #paidMs = -Infinity;
  /** What the last comparison took that found nothing to repair. */
  #comparisonMs = 0;
  #knownUntilMs = -Infinity;
  /** When the tables were last known to be right. */
  #rightMs: number;
  /** Whether another program was seen to change our chains or jumps, and no comparison has ended since. */
  #isChanged = false;
  /** When the last such comparison ended. */
  #calmSinceMs = -Infinity;
  /** Whether they still are if nothing changes. */
  #isRight = false;
  /** The pause between two polls, where events do not tell, and between two comparisons. */
  #lookPauseMs = 0;
  #comparePauseMs = 0;
  /** When a comparison was first postponed, if none was made since. */
  #asideSinceMs: number | undefined;

  constructor(watch: ChangeWatch, monotonicMs: () => number) {
    this.#watch = watch;
    this.#monotonicMs = monotonicMs;
    this.#rightMs = monotonicMs();
  }

  /** Another program changed something. */
  onEvent({ by, what, isDoubt }: ForeignChange): void {
    if (what.length > 0 && isDoubt !== true) this.#isChanged = true;
    const others = this.#changes ?? [];
    const known = others.find((one) => one.by === by && one.isDoubt === isDoubt);
    const all = [...(known?.what ?? []), ...what].slice(0, limits.changesShownMax);
    const change = { by, what: all, ...(isDoubt ? { isDoubt } : {}) };
    if (known) this.#changes = others.map((one) => (one === known ? change : one));
    else this.#changes = [...others, change].slice(0, limits.changesShownMax);
  }

  /** Whether a change was seen, not only suspected. */
  get isSeen(): boolean {
    return this.#changes?.some(({ isDoubt }) => isDoubt !== true) === true;
  }

  /** How long ago the tables were last known to be right, in milliseconds. Proof that nothing changed is as good as a comparison. */
  get ageMs(): number {
    return this.#monotonicMs() - this.#rightMs;
  }

  /** The same, where that is too long ago; else undefined. */
  get unseenMs(): number | undefined {
    return this.#olderThan(limits.unseenMsMax) ? this.ageMs : undefined;
  }

  /** Why an address should not be announced: the kernel may hold other rules. */
  get doubt(): 'changed' | 'unseen' | undefined {
    if (this.#isChanged || this.#monotonicMs() - this.#calmSinceMs < limits.vip.calmMs) return 'changed';
    return this.#olderThan(limits.vip.seenMs) ? 'unseen' : undefined;
  }

  #olderThan(ms: number): boolean {
    const pauseMs = Math.max(this.#lookPauseMs, this.#comparePauseMs);
    return this.ageMs > Math.max(ms, pauseMs * limits.unseenPausesMax);
  }

  /** The tables were seen to be right, as after a change, which reads back what it wrote. */
  saw(): void {
    this.#rightMs = this.#monotonicMs();
    this.#isRight = true;
    if (this.#isChanged) this.#calmSinceMs = this.#monotonicMs();
    // What was reported since the comparison began is not in it.
    this.#isChanged = this.#changes?.some(({ what, isDoubt }) => what.length > 0 && isDoubt !== true) === true;
  }

  /** When `look` is to be called next. */
  get dueMs(): number {
    return this.#changes ? this.#restUntilMs : this.#watch.dueMs;
  }

  /** Whether a scan has to compare the tables: a change was reported, or the last comparison is too old. */
  get isDue(): boolean {
    const isHeard = this.#changes !== undefined && this.#monotonicMs() >= this.#restUntilMs;
    return this.isSeen || isHeard || this.#monotonicMs() >= this.#knownUntilMs;
  }

  /** @returns whether a comparison is due now */
  async look(): Promise<boolean> {
    if (!this.#changes && this.#monotonicMs() >= this.#watch.dueMs) {
      const seen = await this.#watch.look();
      if (typeof seen === 'object') this.onEvent(seen);
      else if (seen === 'unchanged' && this.#isRight && !this.#changes) this.saw();
      this.#lookPauseMs = this.#watch.dueMs - this.#monotonicMs();
    }
    return this.#changes !== undefined && this.#monotonicMs() >= this.#restUntilMs;
  }

  /** Whether a comparison may be postponed for urgent work: no change was seen, and it was not postponed for long. */
  get canWait(): boolean {
    const sinceMs = this.#asideSinceMs ?? this.#monotonicMs();
    return !this.isSeen && this.#monotonicMs() - sinceMs < limits.compareLateMsMax;
  }

  /**
   * A comparison was postponed for urgent work. It begins again after a pause that pays for what was lost: where changes come every second,
   * all the processor time would go into beginnings.
   * @param usedMs the processor time that it took until then
   */
  wasInterrupted(usedMs: number): void {
    const nowMs = this.#monotonicMs();
    this.#isRight = false;
    this.#asideSinceMs ??= nowMs;
    this.#knownUntilMs = nowMs + pauseAfter(usedMs, paces.comparisonAgain);
  }

  /** Begins a comparison. @returns the changes reported until now; later reports ask for another comparison */
  take(): readonly ForeignChange[] {
    const onEvent = this.#changes ?? [];
    this.#changes = undefined;
    return onEvent;
  }

  /** Sluice has changed the tables itself. */
  wrote(): void {
    this.#watch.forget();
  }

  /**
   * A comparison ended, and the tables are right.
   * @param usedMs the processor time it took
   * @param steps the number of repair steps it took
   */
  compared(usedMs: number, steps: number): void {
    this.#asideSinceMs = undefined;
    if (steps > 0) this.wrote();
    else this.#comparisonMs = usedMs;
    this.saw();
    // A repair is dearer than a comparison, and has its own bound, that of a drift loop: were it paid for, too, the next one would come late.
    this.#pay(steps > 0 ? Math.min(usedMs, this.#comparisonMs) : usedMs);
    // The cost of a repair is not that of a comparison: the next scan compares and finds out.
    const againMs = steps > 0 ? 0 : pauseAfter(usedMs, paces.comparisonUnasked);
    this.#knownUntilMs = this.#monotonicMs() + againMs;
  }

  /**
   * A comparison or a repair failed. It is retried like any other, after a pause: failing is not cheaper.
   * @param usedMs the processor time it took
   */
  failed(usedMs: number): void {
    // As in `compared`: the rules are wrong meanwhile, so what the repair itself cost is not paid for.
    this.#pay(this.#comparisonMs > 0 ? Math.min(usedMs, this.#comparisonMs) : usedMs);
    this.doubted();
  }

  /** The content of the tables is not known: the next scan compares them. */
  doubted(): void {
    this.#isRight = false;
    this.#knownUntilMs = -Infinity;
  }

  /** A few comparisons may follow each other at once; over a longer time pauses pay for them. */
  #pay(usedMs: number): void {
    const nowMs = this.#monotonicMs();
    const { leastMs, factor } = paces.comparison;
    const costMs = usedMs * factor;
    this.#comparePauseMs = costMs;
    // Bounded: the cost of a bad hour must not delay the next repair.
    this.#paidMs = Math.min(Math.max(this.#paidMs, nowMs) + costMs, nowMs + costMs * limits.comparisonsAtOnce);
    this.#restUntilMs = Math.max(nowMs + leastMs, this.#paidMs - costMs * (limits.comparisonsAtOnce - 1));
  }
}
