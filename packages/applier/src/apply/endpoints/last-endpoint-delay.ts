import type { Clock } from '../../ports/clock.ts';
import type { FirstAndLast } from './first-and-last.ts';

/** The frontends of a bundle that must wait for the last-endpoint delay. */
export interface LastEndpointWaits {
  /** Frontends that lose their last endpoint and must still wait. */
  readonly pending: readonly string[];
  /** The shortest wait of these. */
  readonly nextMs: number;
  /** The wait of the whole bundle, for when it cannot be split; 0: none. */
  readonly togetherMs: number;
}

export const noWaits: LastEndpointWaits = { pending: [], nextMs: 0, togetherMs: 0 };

/** How long the rest of a bundle must wait; 0: not at all. @param isSplit whether all that need not wait went in already */
export const waitMs = ({ nextMs, togetherMs }: LastEndpointWaits, isSplit: boolean): number =>
  isSplit ? nextMs : togetherMs;

/**
 * Decides when a Service loses its last endpoint, which is late: a pod that is being replaced, or a source of endpoints that fails for a
 * moment, must not take away a Service that could still answer. Counts how long bundles have had the Service without an endpoint; a new
 * process starts from zero.
 *
 * If the files of single Services are not known, a bundle cannot be split, and first endpoints of other Services wait with the last ones.
 * The longest-waiting frontend then decides for all, so that no wait is prolonged by Services that lose and regain their last endpoint.
 */
export class LastEndpointDelay {
  readonly #afterMs: number;
  readonly #clock: Pick<Clock, 'bootMs'>;
  /** Since when each frontend waits. Time spent waiting as a first one does not count for a last one. */
  #since: { readonly last: Times; readonly first: Times } = { last: new Map(), first: new Map() };

  constructor(afterMs: number, clock: Pick<Clock, 'bootMs'>) {
    this.#afterMs = afterMs;
    this.#clock = clock;
  }

  /** @param edges all frontends of the bundle that change; the waits of other frontends end */
  waits({ first = [], last = [] }: Partial<FirstAndLast>): LastEndpointWaits {
    const nowMs = this.#clock.bootMs();
    const timesOf = (frontends: readonly string[], before: Times): Times =>
      new Map(frontends.map((frontend) => [frontend, before.get(frontend) ?? nowMs]));
    const waitingFirst = last.length === 0 ? [] : first;
    this.#since = { last: timesOf(last, this.#since.last), first: timesOf(waitingFirst, this.#since.first) };
    const restMs = (sinceMs: number): number => Math.max(0, sinceMs + this.#afterMs - nowMs);
    const pending = [...this.#since.last].filter(([, sinceMs]) => restMs(sinceMs) > 0);
    const all = [...this.#since.last.values(), ...this.#since.first.values()];
    return {
      pending: pending.map(([frontend]) => frontend),
      nextMs: least(pending.map(([, sinceMs]) => restMs(sinceMs))),
      togetherMs: least(all.map(restMs)),
    };
  }

  /** Ends all waits: the present bundle was not compared. */
  forget(): void {
    this.#since = { last: new Map(), first: new Map() };
  }
}

type Times = ReadonlyMap<string, number>;

const least = (waits: readonly number[]): number => waits.reduce((a, b) => Math.min(a, b), waits[0] ?? 0);
