import type { Clock } from '../rollout/ports.ts';

/**
 * How long Services have been offered without an endpoint. The last one goes late: a pod that is replaced, or a source of endpoints that
 * is gone for a moment, must not take a Service away that could still answer. A new process counts anew.
 */
export class LastOnes {
  readonly #afterMs: number;
  readonly #clock: Pick<Clock, 'bootMs'>;
  /** Since when, by the ways into them. */
  #sinceMs: ReadonlyMap<string, number> = new Map();

  constructor(afterMs: number, clock: Pick<Clock, 'bootMs'>) {
    this.#afterMs = afterMs;
    this.#clock = clock;
  }

  /**
   * @param last the ways into Services that what is offered takes the last endpoint of, all there are: others are forgotten
   * @returns how long they must still wait; 0: the last endpoints may go
   */
  waitMs(last: readonly string[]): number {
    const nowMs = this.#clock.bootMs();
    const before = this.#sinceMs;
    this.#sinceMs = new Map(last.map((way) => [way, before.get(way) ?? nowMs]));
    return Math.max(0, ...[...this.#sinceMs.values()].map((sinceMs) => sinceMs + this.#afterMs - nowMs));
  }
}
