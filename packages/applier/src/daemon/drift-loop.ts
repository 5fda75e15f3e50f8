import { limits } from '../limits.ts';
import type { Status } from '../status/status.ts';

/**
 * Finds out whether another program undoes our repairs again and again. Drift repair does not try to outrun it: the alarm calls an
 * operator, repairs slow down, no rule is removed.
 */
export class DriftLoop {
  /** When drift was repaired, within the last `limits.repairsWindowMs`. */
  #repairsMs: readonly number[] = [];

  /** A repair, or one that another program undid before it was verified. */
  count(nowMs: number): void {
    this.#repairsMs = [...this.#repairsMs, nowMs];
  }

  get is(): boolean {
    return this.#repairsMs.length > limits.repairsMax;
  }

  /** The time between two scans. */
  paceMs(scanIntervalMs: number): number {
    return this.is ? Math.max(limits.driftLoopPaceMs, scanIntervalMs) : scanIntervalMs;
  }

  /** Raises or clears the alarm. */
  judge(status: Pick<Status, 'raise' | 'clear'>, nowMs: number): void {
    this.#repairsMs = this.#repairsMs.filter((atMs) => atMs >= nowMs - limits.repairsWindowMs);
    if (!this.is) return status.clear('DRIFT_LOOP');
    const minutes = limits.repairsWindowMs / 60_000;
    const why = `another program changed our rules ${this.#repairsMs.length} times in ${minutes} minutes`;
    status.raise('DRIFT_LOOP', `${why}; drift repair continues, at most every ${limits.driftLoopPaceMs / 1000} s`);
  }
}
