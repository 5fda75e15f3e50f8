import { limits } from '../../limits.ts';
import type { NodeState } from '../../ports/node-state.ts';
import { Balance, type Imbalance } from './balance.ts';
import { ConnectionTotals } from './connection-totals.ts';
import { busiestServices, type ServiceConnections } from './most.ts';
import type { RuleCount } from './rule-counts.ts';
import { sharesOf } from './shares.ts';
import type { TrafficReading } from './traffic.ts';

/** How live connections are read. */
export interface TrafficSummary {
  /** Since the reading before; null: there was none. */
  readonly seconds: number | null;
  /** Whether the kernel counts bytes: in modes iptables and nftables only with `net.netfilter.nf_conntrack_acct`. */
  readonly hasBytes: boolean;
}

/** What is told of the readings. */
export interface ServiceReport {
  readonly services: readonly ServiceConnections[];
  readonly imbalances: readonly Imbalance[];
  /** Between the last two readings of new connections; null: there were fewer. */
  readonly seconds: number | null;
  /** Null: live connections were not read. */
  readonly traffic: TrafficSummary | null;
  /** Services of each figure that are told at most. */
  readonly most: number;
}

/** The connections of Services over all readings, and how evenly they are spread. */
export class ServiceCounts {
  readonly #totals = new ConnectionTotals();
  readonly #balance = new Balance();
  readonly #most: number;
  #counted: { readonly atMs: number; readonly seconds: number | null } | undefined;
  #traffic:
    | (TrafficSummary & { readonly atMs: number; readonly reading: TrafficReading; readonly isPart: boolean })
    | undefined;

  /** @param most Services of each figure that are told */
  constructor(most: number = limits.countedFrontendsShown) {
    this.#most = most;
  }

  /** Takes the counters of new connections. @param state the active one, after the reading @param rules as of `Balance.take` */
  take(
    reading: readonly RuleCount[],
    state: NodeState,
    nowMs: number,
    rules?: { readonly of: string | undefined },
  ): ServiceReport {
    const came = this.#totals.take(reading);
    this.#balance.take(reading, came, (family, group) => sharesOf(state, family, group), nowMs, rules ? rules.of : '');
    this.#counted = { atMs: nowMs, seconds: secondsSince(this.#counted?.atMs, nowMs) };
    return this.#summarise();
  }

  /** Takes the live connections. Keeps those of the Services that are told: a node may have 50,000 endpoints. */
  takeTraffic(reading: TrafficReading, hasBytes: boolean, nowMs: number): ServiceReport {
    const seconds = secondsSince(this.#traffic?.atMs, nowMs);
    this.#traffic = { atMs: nowMs, seconds, hasBytes, reading, isPart: false };
    const summary = this.#summarise();
    const kept = summary.services.map(({ service }) => [service, reading.get(service) ?? new Map()] as const);
    this.#traffic = { ...this.#traffic, reading: new Map(kept), isPart: true };
    return summary;
  }

  #summarise(): ServiceReport {
    const { reading, isPart = false, seconds = null, hasBytes = false } = this.#traffic ?? {};
    const counts = this.#counted && this.#totals.all;
    return {
      services: busiestServices(
        { counts, traffic: reading, isPart, hasBytes },
        (service) => this.#balance.of(service),
        this.#most,
      ),
      imbalances: this.#balance.far.slice(0, limits.imbalancesReported),
      seconds: this.#counted?.seconds ?? null,
      traffic: this.#traffic ? { seconds, hasBytes } : null,
      most: this.#most,
    };
  }
}

const secondsSince = (beforeMs: number | undefined, nowMs: number): number | null =>
  beforeMs === undefined ? null : (nowMs - beforeMs) / 1000;
