import type { Clock } from '../rollout/ports.ts';
import type { FirstAndLast } from './first-and-last.ts';

/** What has to wait of what is offered. */
export interface Waits {
  /** The last ones that have to wait still. */
  readonly pending: readonly string[];
  /** How long the next of these has to wait. */
  readonly nextMs: number;
  /** How long all of it has to wait, where it can only go in together; 0: it may. */
  readonly togetherMs: number;
}

/**
 * How long Services have been offered without an endpoint. The last one goes late: a pod that is replaced, or a source of endpoints that
 * is gone for a moment, must not take a Service away that could still answer. A new process counts anew.
 *
 * Where nobody knows which files are those of a Service, last ones go in together, and with them the first endpoints of other Services:
 * then what came first decides. So nothing is held back longer, however many Services lose their last endpoint and get it back meanwhile.
 */
export class LastEndpointDelay {
  readonly #afterMs: number;
  readonly #clock: Pick<Clock, 'bootMs'>;
  /** Since when, by the ways into them, and by those into what waits with them: a way that waited as a first one did not as a last one. */
  #since: { readonly last: Times; readonly first: Times } = { last: new Map(), first: new Map() };

  constructor(afterMs: number, clock: Pick<Clock, 'bootMs'>) {
    this.#afterMs = afterMs;
    this.#clock = clock;
  }

  /** @param edges what is offered takes or brings, all there is: others are forgotten */
  waits({ first = [], last = [] }: Partial<FirstAndLast>): Waits {
    const nowMs = this.#clock.bootMs();
    const timesOf = (ways: readonly string[], before: Times): Times =>
      new Map(ways.map((way) => [way, before.get(way) ?? nowMs]));
    // Without a last one nothing waits.
    const others = last.length === 0 ? [] : first;
    this.#since = { last: timesOf(last, this.#since.last), first: timesOf(others, this.#since.first) };
    const restMs = (sinceMs: number): number => Math.max(0, sinceMs + this.#afterMs - nowMs);
    const pending = [...this.#since.last].filter(([, sinceMs]) => restMs(sinceMs) > 0);
    const all = [...this.#since.last.values(), ...this.#since.first.values()];
    return {
      pending: pending.map(([way]) => way),
      nextMs: least(pending.map(([, sinceMs]) => restMs(sinceMs))),
      togetherMs: least(all.map(restMs)),
    };
  }

  /** What is offered now is not looked at for what it takes. */
  forget(): void {
    this.#since = { last: new Map(), first: new Map() };
  }
}

type Times = ReadonlyMap<string, number>;

const least = (waits: readonly number[]): number => waits.reduce((a, b) => Math.min(a, b), waits[0] ?? 0);
