import { limits } from '../limits.ts';
import type { RuleCount } from './rule-counts.ts';

/** New connections to an endpoint of a Service. */
export interface ServiceEndpointCount {
  /** `shop/web:http` */
  readonly service: string;
  /** `10.244.1.5:8080` */
  readonly endpoint: string;
  readonly connections: number;
}

/**
 * Sums up what rules count, over changes that make rules anew: a chain with a new name, or a rule that has counted less than before, began
 * at zero. What a rule counted between the last reading and its end is lost.
 */
export class ConnectionTotals {
  /** By Service and endpoint. Bounded: those without new connections for longest are forgotten first. */
  readonly #totals = new Map<string, number>();
  /** What each rule had counted, by chain and endpoint. */
  #last: ReadonlyMap<string, number> = new Map();

  /** Takes a reading of all rules. */
  take(reading: Iterable<RuleCount>): void {
    const now = new Map<string, number>();
    for (const { service, chain, endpoint, connections } of reading) {
      const rule = `${chain} ${endpoint}`;
      const before = this.#last.get(rule) ?? 0;
      now.set(rule, connections);
      this.#add(`${service} ${endpoint}`, connections < before ? connections : connections - before);
    }
    this.#last = now;
  }

  get all(): readonly ServiceEndpointCount[] {
    return [...this.#totals].map(([key, connections]) => {
      const [service = '', endpoint = ''] = key.split(' ');
      return { service, endpoint, connections };
    });
  }

  #add(key: string, more: number): void {
    if (more === 0) return;
    const total = (this.#totals.get(key) ?? 0) + more;
    this.#totals.delete(key);
    this.#totals.set(key, total);
    const [oldest] = this.#totals.keys();
    if (this.#totals.size > limits.deletedCountsKept && oldest !== undefined) this.#totals.delete(oldest);
  }
}
