import { limits } from '../../limits.ts';
import type { RuleCount } from './rule-counts.ts';

/** New connections to an endpoint of a Service. */
export interface ServiceEndpointCount {
  /** `shop/web:http`; in modes ipvs and nftables `shop/web`. */
  readonly service: string;
  /** `10.244.1.5:8080` */
  readonly endpoint: string;
  readonly connections: number;
  /** Those of `connections` that came between the last two readings. */
  readonly recent: number;
}

/**
 * Sums up what rules count, over changes that make rules again: a chain with a new name, or a rule that has counted less than before, began
 * at zero. What a rule counted between the last reading and its end is lost.
 */
export class ConnectionTotals {
  /** By Service and endpoint. Bounded: those without new connections for longest are forgotten first. */
  readonly #totals = new Map<string, number>();
  /** What each rule had counted, by chain and endpoint. */
  #last: ReadonlyMap<string, number> = new Map();
  /** What came with the last reading, by Service and endpoint. */
  #recent: ReadonlyMap<string, number> = new Map();

  /**
   * Takes a reading of all rules.
   * @returns what came since the reading before, with its numbers of connections; rules without new connections are left out
   */
  take(reading: Iterable<RuleCount>): readonly RuleCount[] {
    const now = new Map<string, number>();
    const recent = new Map<string, number>();
    const came: RuleCount[] = [];
    for (const one of reading) {
      const { service, chain, endpoint, connections } = one;
      const rule = `${chain} ${endpoint}`;
      const before = this.#last.get(rule) ?? 0;
      now.set(rule, connections);
      const more = connections < before ? connections : connections - before;
      if (more === 0) continue;
      const key = `${service} ${endpoint}`;
      recent.set(key, (recent.get(key) ?? 0) + more);
      came.push({ ...one, connections: more });
    }
    for (const [key, more] of recent) this.#add(key, more);
    forgetFirst(this.#totals, limits.deletedCountsKept);
    this.#last = now;
    this.#recent = recent;
    return came;
  }

  get all(): readonly ServiceEndpointCount[] {
    return [...this.#totals].map(([key, connections]) => {
      const [service = '', endpoint = ''] = key.split(' ');
      return { service, endpoint, connections, recent: this.#recent.get(key) ?? 0 };
    });
  }

  #add(key: string, more: number): void {
    const total = (this.#totals.get(key) ?? 0) + more;
    this.#totals.delete(key);
    this.#totals.set(key, total);
  }
}

/** Deletes the first entries above a size. All at once: to find the first key, a map passes by all that were deleted before it. */
function forgetFirst(map: Map<string, unknown>, size: number): void {
  let excess = map.size - size;
  for (const key of map.keys()) {
    if (excess-- <= 0) return;
    map.delete(key);
  }
}
