import {
  differing,
  emptyTable,
  families,
  type Family,
  planeOf,
  tableNames,
  type TableProgram,
} from '@sluice/netfilter';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { limits } from '../../limits.ts';
import { nodePlaneOf } from '../../apply/planes/planes.ts';
import type { Outcome } from '../../ports/outcome.ts';
import type { Generation } from '../../ports/journal.ts';
import { familiesOf, type NodeState, tableOf } from '../../ports/node-state.ts';
import type { ProxyView } from './kube-proxy-ports.ts';
import { makersFor } from './make-metric.ts';

const familyLabel = { ipv4: 'IPv4', ipv6: 'IPv6' } as const;

/** The families that a state serves: a table of its own is for both. */
const served = (state: NodeState): readonly Family[] => (nodePlaneOf(state).hasOwnTable ? families : familiesOf(state));

/**
 * Metrics of kube-proxy (`pkg/proxy/metrics/metrics.go`) that mean the same here, under kube-proxy's names, so that dashboards and alerts
 * keep working. Both families are applied in one change: each gets the time of the whole.
 */
export class ProxyMetrics {
  readonly #nowMs: () => number;
  readonly #duration: Histogram<'ip_family'>;
  readonly #last: Gauge<'ip_family'>;
  readonly #rules: Gauge<'ip_family' | 'table'>;
  readonly #written: Gauge<'ip_family' | 'table'>;
  readonly #queued: Gauge<'ip_family'>;
  readonly #healthz: Counter<'code'>;
  readonly #livez: Counter<'code'>;
  /** By family and table, the chains that were counted last and their rules. */
  readonly #counted = new Map<string, { readonly chains: TableProgram['chains']; readonly rules: number }>();
  /** By label of a family, when it was synced last, in milliseconds since 1970. */
  readonly #synced = new Map<string, number>();
  /** That of the active generation. */
  mode: ProxyView['mode'];

  /** @param nowMs the time of day */
  constructor(registry: Registry, nowMs: () => number) {
    const { counter, gauge } = makersFor(registry);
    this.#nowMs = nowMs;
    this.#duration = new Histogram({
      name: 'kubeproxy_sync_proxy_rules_duration_seconds',
      help: 'SyncProxyRules latency in seconds',
      labelNames: ['ip_family'],
      buckets: Array.from({ length: 15 }, (_, power) => 0.001 * 2 ** power),
      registers: [registry],
    });
    this.#last = gauge(
      'kubeproxy_sync_proxy_rules_last_timestamp_seconds',
      'The last time proxy rules were successfully synced',
      'ip_family',
    );
    this.#rules = gauge(
      'kubeproxy_sync_proxy_rules_iptables_total',
      'Total number of iptables rules owned by kube-proxy',
      'ip_family',
      'table',
    );
    this.#written = gauge(
      'kubeproxy_sync_proxy_rules_iptables_last',
      'Number of iptables rules written by kube-proxy in last sync',
      'ip_family',
      'table',
    );
    this.#queued = gauge(
      'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds',
      'The last time a sync of proxy rules was queued',
      'ip_family',
    );
    const answers = (name: string, what: string): Counter<'code'> =>
      counter(name, `Cumulative proxy ${what} HTTP status`, 'code');
    this.#healthz = answers('kubeproxy_proxy_healthz_total', 'healthz');
    this.#livez = answers('kubeproxy_proxy_livez_total', 'livez');
  }

  /** Takes the outcome of a bundle; times count only when the kernel holds the desired rules. */
  synced(outcome: Outcome, seconds: number): void {
    if (outcome.kind !== 'same' && outcome.kind !== 'confirmed') return;
    for (const family of served(outcome.generation.state)) {
      this.#duration.observe({ ip_family: familyLabel[family] }, seconds);
      this.#last.set({ ip_family: familyLabel[family] }, this.#nowMs() / 1000);
      this.#synced.set(familyLabel[family], this.#nowMs());
    }
  }

  /** A bundle differs from the active generation, and is taken up. */
  queued(): void {
    for (const label of Object.values(familyLabel)) this.#queued.set({ ip_family: label }, this.#nowMs() / 1000);
  }

  /** By label of a family, `IPv4`, when it was synced last, in milliseconds since 1970. */
  get lastSyncedMs(): ReadonlyMap<string, number> {
    return this.#synced;
  }

  /** Takes the active generation, and counts its rules. */
  activate(generation: Generation | undefined): void {
    this.mode = generation && planeOf(generation.state).mode;
    this.#rules.reset();
    this.#written.reset();
    for (const family of generation ? familiesOf(generation.state) : []) {
      for (const table of tableNames) {
        const labels = { ip_family: familyLabel[family], table };
        const { chains, jumps } = tableOf(generation!.state, family, table);
        const last = this.#counted.get(`${family} ${table}`) ?? { chains: emptyTable.chains, rules: 0 };
        const { more, written } = rulesOfChanged(last.chains, chains);
        const rules = last.rules + more;
        this.#counted.set(`${family} ${table}`, { chains, rules });
        this.#rules.set(labels, rules + jumps.length);
        this.#written.set(labels, written);
      }
    }
  }

  healthz(code: number): void {
    this.#healthz.inc({ code });
  }

  livez(code: number): void {
    this.#livez.inc({ code });
  }
}

/** Of chains that differ in two tables: how many more rules the second one has, and how many it has at all. */
function rulesOfChanged(
  before: TableProgram['chains'],
  now: TableProgram['chains'],
): { readonly more: number; readonly written: number } {
  let [had, has] = [0, 0];
  for (const name of differing(before, now)) {
    had += before.get(name)?.length ?? 0;
    has += now.get(name)?.length ?? 0;
  }
  return { more: has - had, written: has };
}

/** The node's memory that a scrape reads. */
export interface NodeMemory {
  /** The number of quarantined versions. */
  quarantined(): number;
  /** The number of quarantined versions of Services. */
  quarantinedServices(): number;
  /** Until when a newer release waits after failed ones, in milliseconds since 1970; 0 when none does. */
  notBeforeMs(): number;
  /** Since when the active generation is in the kernel, in milliseconds since 1970; undefined without one. */
  activeSinceMs(): number | undefined;
  /** The entries of conntrack and their limit; undefined where the kernel does not tell. */
  conntrack(): { readonly entries: number; readonly limit: number } | undefined;
}

/** Metrics of transactions, from the events they report. */
export class TransactionMetrics {
  readonly #monotonicMs: () => number;
  readonly #phases: Histogram<'phase'>;
  readonly #rollbacks: Counter;
  readonly #updates: Counter;
  readonly #refused: Counter<'kind'>;
  #phase: { readonly name: string; readonly sinceMs: number } | undefined;
  /** Since when the kernel has refused endpoint updates, and why it refused the last one. */
  #unwritten: { readonly sinceMs: number; readonly because: string } | undefined;

  /** @param nowMs the time of day */
  constructor(registry: Registry, monotonicMs: () => number, nowMs: () => number, memory: NodeMemory) {
    const { counter, derived } = makersFor(registry);
    this.#monotonicMs = monotonicMs;
    this.#phases = new Histogram({
      name: 'sluice_apply_phase_seconds',
      help: 'How long each phase of a change takes',
      labelNames: ['phase'],
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
      registers: [registry],
    });
    this.#rollbacks = counter('sluice_rollbacks_total', 'Rollbacks');
    this.#updates = counter(
      'sluice_trial_updates_total',
      'Endpoint updates that went into both programs during probation',
    );
    this.#refused = counter(
      'sluice_kernel_refusals_total',
      'Changes that a tool or the kernel refused, which is what a failed restore is to kube-proxy: release or endpoints',
      'kind',
    );
    for (const kind of ['release', 'endpoints'] as const) this.#refused.inc({ kind }, 0);
    derived('sluice_quarantined_versions', 'Quarantined versions, which are not applied again automatically', () =>
      memory.quarantined(),
    );
    derived(
      'sluice_quarantined_services',
      'Quarantined versions of Services, which later releases leave out automatically',
      () => memory.quarantinedServices(),
    );
    derived(
      'sluice_release_waits_until_timestamp_seconds',
      'When the back-off after failed releases ends; 0 without one',
      () => (memory.notBeforeMs() > nowMs() ? memory.notBeforeMs() / 1000 : 0),
    );
    derived(
      'sluice_bundle_age_seconds',
      'How long the active generation has been in the kernel; -1 before the first',
      () => {
        const sinceMs = memory.activeSinceMs();
        return sinceMs === undefined ? -1 : Math.max(0, (nowMs() - sinceMs) / 1000);
      },
    );
    derived('sluice_conntrack_entries', 'Entries of the connection tracking; -1 where the kernel does not tell', () => {
      return memory.conntrack()?.entries ?? -1;
    });
    derived(
      'sluice_conntrack_entries_max',
      'How many the kernel tracks at most (nf_conntrack_max): it drops packets of further ones; -1 where it does not tell',
      () => memory.conntrack()?.limit ?? -1,
    );
  }

  /** Takes an event of a transaction. */
  onEvent(event: string, details: Readonly<Record<string, unknown>>): void {
    if (event === 'kernel-refused')
      this.#refused.inc({ kind: details['lane'] === 'endpoints' ? 'endpoints' : 'release' });
    if (event === 'phase') this.#enter(String(details['phase']));
    if (event === 'rolling-back') this.#rollbacks.inc();
    if (event === 'endpoints-updated') this.#updates.inc();
    // After a refused release the previous rules are the desired ones again; after refused endpoints the kernel is stale.
    if (event === 'kernel-refused' && details['lane'] === 'endpoints')
      this.#unwritten = {
        sinceMs: this.#unwritten?.sinceMs ?? this.#monotonicMs(),
        because: String(details['because']),
      };
    if (event === 'in-kernel' || event === 'endpoints-updated') this.isIn();
  }

  /** The kernel holds the desired rules. */
  isIn(): void {
    this.#unwritten = undefined;
  }

  #enter(name: string): void {
    const nowMs = this.#monotonicMs();
    if (this.#phase) this.#phases.observe({ phase: this.#phase.name }, (nowMs - this.#phase.sinceMs) / 1000);
    this.#phase = name === 'end' ? undefined : { name: phaseLabels[name] ?? name, sinceMs: nowMs };
  }

  /** Why the kernel refuses endpoint updates, once it has done so for long; undefined otherwise. */
  get refusal(): string | undefined {
    const { sinceMs = Infinity, because } = this.#unwritten ?? {};
    return this.#monotonicMs() - sinceMs < limits.unwrittenMsMax ? undefined : because;
  }
}

/** Phases whose label of `sluice_apply_phase_seconds` has another word: that of 0.1.0, for dashboards. */
const phaseLabels: Readonly<Record<string, string>> = { stage: 'write', probation: 'trial', 'roll back': 'back' };
