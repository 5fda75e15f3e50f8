import type { Change, ChangeWatch } from './kernel/changes.ts';
import { limits } from './limits.ts';

/**
 * Decides when the tables are compared: soon after an event, whatever others write never so often that it takes more than a small part
 * of the time; and now and then though nobody told of a change, so rarely that it is hardly noticed on a node with many rules.
 */
export class Drift {
  readonly #watch: ChangeWatch;
  readonly #monotonicMs: () => number;
  #suspect: Change | undefined;
  #restUntilMs = -Infinity;
  #knownUntilMs = -Infinity;
  /** When a comparison first stepped aside, if none was made since. */
  #asideSinceMs: number | undefined;

  constructor(watch: ChangeWatch, monotonicMs: () => number) {
    this.#watch = watch;
    this.#monotonicMs = monotonicMs;
  }

  /** Somebody else changed something. The first who did is told; what others did is added. */
  heard({ by, what, isDoubt }: Change): void {
    const known = this.#suspect;
    const all = [...(known?.what ?? []), ...what].slice(0, limits.changesToldMax);
    const isSeen = isDoubt === undefined || (known !== undefined && known.isDoubt === undefined);
    this.#suspect = { by: known?.by ?? by, what: all, ...(isSeen ? {} : { isDoubt: true }) };
  }

  /** When `look` is to be called next. */
  get dueMs(): number {
    return this.#suspect ? this.#restUntilMs : this.#watch.dueMs;
  }

  /** Whether a scan has to compare the tables: something was heard, or they were compared too long ago. */
  get isDue(): boolean {
    return this.#suspect !== undefined || this.#monotonicMs() >= this.#knownUntilMs;
  }

  /** @returns what makes a comparison due now */
  async look(): Promise<Change | undefined> {
    if (!this.#suspect && this.#monotonicMs() >= this.#watch.dueMs) {
      const change = await this.#watch.look();
      if (change) this.heard(change);
    }
    return this.#monotonicMs() >= this.#restUntilMs ? this.#suspect : undefined;
  }

  /** Whether a comparison may step aside for something more urgent: nobody was seen to change anything, and it has not done so for long. */
  get canWait(): boolean {
    const sinceMs = this.#asideSinceMs ?? this.#monotonicMs();
    return (
      (this.#suspect === undefined || this.#suspect.isDoubt === true) &&
      this.#monotonicMs() - sinceMs < limits.compareLateMsMax
    );
  }

  /** A comparison stepped aside: the next scan makes it. */
  steppedAside(): void {
    this.#asideSinceMs ??= this.#monotonicMs();
    this.doubted();
  }

  /** A comparison begins. @returns what was suspected until now; what is heard from now on asks for another one */
  take(): Change | undefined {
    const suspect = this.#suspect;
    this.#suspect = undefined;
    return suspect;
  }

  /** Sluice has changed the tables itself. */
  wrote(): void {
    this.#watch.forget();
  }

  /**
   * Everything was compared.
   * @param tookMs how long that took
   * @param steps how many it took to put the tables right
   */
  compared(tookMs: number, steps: number): void {
    this.#asideSinceMs = undefined;
    if (steps > 0) this.wrote();
    this.#pause(tookMs);
    // What a repair took says nothing of a comparison: the next scan makes one and finds out.
    const againMs = steps > 0 ? 0 : Math.min(tookMs * limits.compareAgainFactor, limits.compareAgainMsMax);
    this.#knownUntilMs = this.#monotonicMs() + againMs;
  }

  /**
   * A comparison or a repair did not end well. It is made again like any other, after a pause: what fails is not cheaper.
   * @param tookMs how long it took to fail
   */
  failed(tookMs: number): void {
    this.#pause(tookMs);
    this.doubted();
  }

  /** It is not known what the tables hold: the next scan compares them. */
  doubted(): void {
    this.#knownUntilMs = -Infinity;
  }

  /** What is heard asks for the next comparison only when this one has paid for itself. */
  #pause(tookMs: number): void {
    const pauseMs = Math.max(limits.comparePauseMs, tookMs * limits.comparePauseFactor);
    this.#restUntilMs = this.#monotonicMs() + pauseMs;
  }
}
