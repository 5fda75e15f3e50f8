import { limits } from '../limits.ts';
import type { NodeState } from '../ports/node-state.ts';
import { Balance, type Imbalance } from './balance.ts';
import { ConnectionTotals } from './connection-totals.ts';
import { busiestServices, type ServiceConnections } from './most.ts';
import type { RuleCount } from './rule-counts.ts';
import { sharesOf } from './shares.ts';

/** What is told of a reading. */
export interface ToldCounts {
  readonly services: readonly ServiceConnections[];
  readonly imbalances: readonly Imbalance[];
  /** Since the reading before; null: there was none. */
  readonly seconds: number | null;
}

/** The connections of Services over all readings, and how evenly they are spread. */
export class ServiceCounts {
  readonly #totals = new ConnectionTotals();
  readonly #balance = new Balance();
  #lastMs: number | undefined;

  /** @param state the active one, after the reading */
  take(reading: readonly RuleCount[], state: NodeState, nowMs: number): ToldCounts {
    const came = this.#totals.take(reading);
    this.#balance.take(reading, came, (family, group) => sharesOf(state, family, group), nowMs);
    const seconds = this.#lastMs === undefined ? null : (nowMs - this.#lastMs) / 1000;
    this.#lastMs = nowMs;
    return {
      services: busiestServices(this.#totals.all, (service) => this.#balance.of(service)),
      imbalances: this.#balance.far.slice(0, limits.imbalancesTold),
      seconds,
    };
  }
}
