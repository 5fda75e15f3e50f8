import { tableNames } from '@sluice/bundle';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { Outcome } from './rollout/outcome.ts';
import type { Generation } from './rollout/ports.ts';
import { familiesOf, tableOf } from './rollout/state.ts';

const familyLabel = { ipv4: 'IPv4', ipv6: 'IPv6' } as const;

/**
 * Metrics of kube-proxy (`pkg/proxy/metrics/metrics.go`) whose meaning is the same here, under kube-proxy's names, so that dashboards
 * and alarms go on. Both families go into the kernel in one change: each gets the time of the whole.
 */
export class ProxyMetrics {
  readonly #nowMs: () => number;
  readonly #duration: Histogram<'ip_family'>;
  readonly #last: Gauge<'ip_family'>;
  readonly #rules: Gauge<'ip_family' | 'table'>;
  readonly #healthz: Counter<'code'>;
  readonly #livez: Counter<'code'>;

  /** @param nowMs the time of day */
  constructor(registry: Registry, nowMs: () => number) {
    this.#nowMs = nowMs;
    const registers = [registry];
    this.#duration = new Histogram({
      name: 'kubeproxy_sync_proxy_rules_duration_seconds',
      help: 'SyncProxyRules latency in seconds',
      labelNames: ['ip_family'],
      buckets: Array.from({ length: 15 }, (_, power) => 0.001 * 2 ** power),
      registers,
    });
    this.#last = new Gauge({
      name: 'kubeproxy_sync_proxy_rules_last_timestamp_seconds',
      help: 'The last time proxy rules were successfully synced',
      labelNames: ['ip_family'],
      registers,
    });
    this.#rules = new Gauge({
      name: 'kubeproxy_sync_proxy_rules_iptables_total',
      help: 'Total number of iptables rules owned by kube-proxy',
      labelNames: ['ip_family', 'table'],
      registers,
    });
    const answers = (name: string, what: string): Counter<'code'> =>
      new Counter({ name, help: `Cumulative proxy ${what} HTTP status`, labelNames: ['code'], registers });
    this.#healthz = answers('kubeproxy_proxy_healthz_total', 'healthz');
    this.#livez = answers('kubeproxy_proxy_livez_total', 'livez');
  }

  /** A bundle ended so; times count only where the kernel now holds what was meant. */
  synced(outcome: Outcome, seconds: number): void {
    if (outcome.kind !== 'same' && outcome.kind !== 'confirmed') return;
    for (const family of familiesOf(outcome.generation.state)) {
      this.#duration.observe({ ip_family: familyLabel[family] }, seconds);
      this.#last.set({ ip_family: familyLabel[family] }, this.#nowMs() / 1000);
    }
  }

  /** Counts the rules of what stands. */
  stands(generation: Generation | undefined): void {
    this.#rules.reset();
    for (const family of generation ? familiesOf(generation.state) : []) {
      for (const table of tableNames) {
        const { chains, jumps } = tableOf(generation!.state, family, table);
        const rules = [...chains.values()].reduce((sum, one) => sum + one.length, jumps.length);
        this.#rules.set({ ip_family: familyLabel[family], table }, rules);
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
