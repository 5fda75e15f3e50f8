import type { Clock } from '../rollout/ports.ts';
import type { Ends } from './ends.ts';

/**
 * How long Services have been offered without an endpoint. The last one goes late: a pod that is replaced, or a source of endpoints that
 * is gone for a moment, must not take a Service away that could still answer. A new process counts anew.
 *
 * They go in together, and with them the first endpoints of other Services: what came first decides. So nothing is held back longer,
 * however many Services lose their last endpoint and get it back meanwhile.
 */
export class LastOnes {
  readonly #afterMs: number;
  readonly #clock: Pick<Clock, 'bootMs'>;
  /** Since when, by the ways into them and into what waits with them. */
  #sinceMs: ReadonlyMap<string, number> = new Map();

  constructor(afterMs: number, clock: Pick<Clock, 'bootMs'>) {
    this.#afterMs = afterMs;
    this.#clock = clock;
  }

  /**
   * @param ends what is offered takes or brings, all there is: others are forgotten
   * @returns how long it must still wait; 0: it may go in
   */
  waitMs({ first = [], last = [] }: Partial<Ends>): number {
    const nowMs = this.#clock.bootMs();
    const before = this.#sinceMs;
    // Without a last one nothing waits.
    const ways = last.length === 0 ? [] : [...last, ...first];
    this.#sinceMs = new Map(ways.map((way) => [way, before.get(way) ?? nowMs]));
    const waits = [...this.#sinceMs.values()].map((sinceMs) => sinceMs + this.#afterMs - nowMs);
    return waits.length === 0 ? 0 : Math.max(0, Math.min(...waits));
  }

  /** What is offered now is not looked at for what it takes. */
  forget(): void {
    this.#sinceMs = new Map();
  }
}
