import type { Accepted } from '@sluice/bundle';
import { version } from '@sluice/cli';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { byMost, type ServiceConnections } from '../../apply/counts/most.ts';
import type { AffinityFill } from '../../ports/nftables/affinity.ts';
import type { FrontendConnections } from '../../ports/nftables/counts.ts';
import type { Generation } from '../../ports/journal.ts';
import type { SourceStatus } from '../../fetch/status-file.ts';
import { type Outcome, partialOf } from '../../ports/outcome.ts';
import { type NodeMemory, ProxyMetrics, TransactionMetrics } from './metrics.ts';
import { StateSizes } from './state-sizes.ts';
import { makersFor } from './make-metric.ts';

const when = {
  connections:
    'since sluiced started or the kernel counts; modes iptables and ipvs with countConnections, mode nftables with nftables.endpointCounters',
  live: 'at the last reading; with countTraffic',
  bytes:
    'of tracked connections, in mode ipvs since the server was added; with countTraffic, outside of mode ipvs also net.netfilter.nf_conntrack_acct',
} as const;

const figures = [
  { figure: 'connections', name: 'connections', what: 'New connections' },
  { figure: 'live', name: 'live_connections', what: 'Live connections' },
  { figure: 'bytes', name: 'bytes', what: 'Bytes in both directions' },
] as const;

/** What Services and endpoints have, each figure of those that have most: the number of series is bounded. */
export class TrafficMetrics {
  readonly #gauges: readonly {
    readonly figure: (typeof figures)[number]['figure'];
    readonly services: Gauge<'service'>;
    readonly endpoints: Gauge<'service' | 'endpoint'>;
  }[];

  constructor(registry: Registry) {
    const { gauge } = makersFor(registry);
    this.#gauges = figures.map(({ figure, name, what }) => ({
      figure,
      services: gauge(
        `sluice_service_${name}`,
        `${what} of the Service ports that have most (countedServices), ${when[figure]}`,
        'service',
      ),
      endpoints: gauge(
        `sluice_endpoint_${name}`,
        'The same of as many endpoints of these, those that have most',
        'service',
        'endpoint',
      ),
    }));
  }

  /** @param most series of each gauge */
  take(services: readonly ServiceConnections[], most: number): void {
    for (const { figure, services: ofServices, endpoints } of this.#gauges) {
      // Others have most now.
      ofServices.reset();
      endpoints.reset();
      const busiest = services.toSorted(byMost(figure)).slice(0, most);
      for (const { service, [figure]: value } of busiest) if (value !== null) ofServices.set({ service }, value);
      const all = busiest.flatMap(({ service, endpoints: own }) => own.map((one) => ({ ...one, service })));
      for (const { service, endpoint, [figure]: value } of all.toSorted(byMost(figure)).slice(0, most))
        if (value !== null) endpoints.set({ service, endpoint }, value);
    }
  }
}

/** Every metric of the daemon, with its help. */
export class StatusMetrics {
  readonly registry = new Registry();
  readonly proxy: ProxyMetrics;
  transactions: TransactionMetrics | undefined;
  readonly #sizes: StateSizes;
  readonly traffic: TrafficMetrics;
  readonly #outcomes: Counter<'outcome'>;
  readonly repairs: Counter;
  readonly gauges: ReturnType<typeof gauges>;
  readonly #duration: Histogram;

  /**
   * @param report the present status
   * @param nowMs the time of day, for metrics with a timestamp
   */
  constructor(report: () => StatusFacts, nowMs: () => number) {
    this.proxy = new ProxyMetrics(this.registry, nowMs);
    this.#sizes = new StateSizes(this.registry);
    this.traffic = new TrafficMetrics(this.registry);
    const { counter } = makersFor(this.registry);
    this.#outcomes = counter('sluice_outcomes_total', 'Bundles by outcome', 'outcome');
    this.repairs = counter('sluice_repairs_total', 'Drift repairs');
    this.gauges = gauges(this.registry, report);
    this.#duration = new Histogram({
      name: 'sluice_apply_duration_seconds',
      help: 'Time from a complete bundle to its outcome',
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
      registers: [this.registry],
    });
    this.gauges.build.set({ version }, 1);
  }

  /** Adds the metrics of this memory. @param nowMs the time of day */
  remembers(memory: NodeMemory, monotonicMs: () => number, nowMs: () => number): void {
    this.transactions = new TransactionMetrics(this.registry, monotonicMs, nowMs, memory);
  }

  activate(generation: Generation | undefined): void {
    this.gauges.generation.set(generation?.number ?? -1);
    this.gauges.leftOut.set(generation?.partial?.services.length ?? 0);
    this.proxy.activate(generation);
    this.#sizes.activate(generation?.state);
  }

  localhost(open: number, failures: number): void {
    this.gauges.localhost.set(open);
    this.gauges.localhostFailures.set(failures);
  }

  affinity(fills: readonly AffinityFill[]): void {
    for (const { family, clients, size } of fills) {
      this.gauges.clients.set({ family }, clients);
      this.gauges.clientsMax.set({ family }, size);
    }
  }

  connections(frontends: readonly FrontendConnections[]): void {
    const gauge = this.gauges.connections;
    // Others have most now.
    gauge.reset();
    for (const { frontend, connections } of frontends) gauge.set({ frontend }, connections);
  }

  accepted({ serial, expires }: Accepted): void {
    this.gauges.serial.set(serial);
    this.gauges.expires.set(expires === undefined ? 0 : Date.parse(expires) / 1000);
  }

  source({ attempted, succeeded, failures, bytes, serial, receipts }: SourceStatus): void {
    const { sourceAttempt, sourceSuccess, sourceFailures, sourceBytes, sourceSerial, unsent } = this.gauges;
    sourceAttempt.set(Date.parse(attempted) / 1000);
    sourceSuccess.set(succeeded === null ? 0 : Date.parse(succeeded) / 1000);
    sourceFailures.set(failures);
    sourceBytes.set(bytes);
    sourceSerial.set(serial ?? 0);
    unsent.set(receipts === null ? 0 : 1);
  }

  ended(outcome: Outcome, seconds: number): void {
    const isPartial = outcome.kind === 'confirmed' && partialOf(outcome) !== undefined;
    this.#outcomes.inc({ outcome: isPartial ? 'partial' : outcome.kind });
    if (outcome.kind === 'same') this.transactions?.isIn();
    this.#duration.observe(seconds);
    this.proxy.synced(outcome, seconds);
  }
}

/** What metrics tell of the status. */
interface StatusFacts {
  readonly draining: object | null;
  readonly ineligible: string | null;
  readonly alarms: Readonly<Record<string, string>>;
  readonly rulesSeenSeconds: number;
}

function gauges(registry: Registry, report: () => StatusFacts) {
  const { derived, gauge } = makersFor(registry);
  return {
    generation: gauge('sluice_generation', 'The active generation; -1 before the first'),
    alarm: alarmGauge(registry, () => Object.keys(report().alarms)),
    draining: derived('sluice_draining', '1 while the node is drained: its ports for load balancers answer 503', () =>
      report().draining === null ? 0 : 1,
    ),
    eligible: derived(
      'sluice_node_eligible',
      '0 while the node is drained, or its Node is drained or to be deleted: the port of kube-proxy for load balancers answers 503',
      () => (report().draining === null && report().ineligible === null ? 1 : 0),
    ),
    seen: derived(
      'sluice_rules_seen_seconds',
      'How many seconds ago the kernel was last known to hold the active generation; 0 during a change',
      () => report().rulesSeenSeconds,
    ),
    owned: gauge(
      'sluice_nft_table_owned',
      '1 while only sluiced can change the table of mode nftables, 0 while other programs can, or in other modes',
    ),
    localhost: gauge('sluice_localhost_listeners', 'Node ports that sluiced serves on ::1, in mode nftables'),
    localhostFailures: gauge(
      'sluice_localhost_listener_failures',
      'How many times one of them could not be opened since sluiced started',
    ),
    clients: gauge('sluice_affinity_clients', 'Clients of session affinity that mode nftables remembers', 'family'),
    clientsMax: gauge('sluice_affinity_clients_max', 'How many of them it can remember', 'family'),
    connections: gauge(
      'sluice_frontend_connections',
      'New connections of the frontends that have most (countedServices), since sluiced started or the kernel counts; only with nftables.endpointCounters',
      'frontend',
    ),
    build: gauge('sluice_build_info', 'Always 1; the version of sluiced is a label', 'version'),
    pending: gauge(
      'sluice_bundle_pending',
      '1 while the kernel does not hold the bundle of the directory: it is being applied, waits, or was refused',
    ),
    required: gauge('sluice_signatures_required', '1 when bundles must be signed, 0 when any bundle is accepted'),
    serial: gauge('sluice_release_serial', 'The serial of the last accepted release; 0 before the first'),
    expires: gauge('sluice_release_expires_timestamp_seconds', 'When the last accepted release expires; 0 for never'),
    sourceAttempt: gauge('sluice_source_attempt_timestamp_seconds', 'When the source was asked last; 0 without one'),
    sourceSuccess: gauge(
      'sluice_source_success_timestamp_seconds',
      'When it last had what is placed, or a newer release that was placed; 0 for never',
    ),
    sourceFailures: gauge('sluice_source_failures', 'Attempts since then that failed, or found a release to refuse'),
    sourceBytes: gauge('sluice_source_bytes', 'Bytes that all attempts got over the network'),
    sourceSerial: gauge('sluice_source_serial', 'The serial of the release that was placed last; 0 before the first'),
    unsent: gauge('sluice_receipts_unsent', '1 while the fetch process cannot send receipts to receipts.push; else 0'),
    leftOut: gauge(
      'sluice_services_left_out',
      'Services that the active generation lacks of its release, because their probes failed: they stay as before; 0 for none',
    ),
    waitingWave: gauge('sluice_waiting_wave', 'The wave that this node waits for; 0 for none'),
    staleFlows: gauge(
      'sluice_stale_flows',
      'Connections to removed endpoints that the kernel still tracks; 0 for none, 1 where they are not counted',
    ),
  };
}

/** An alarm that is over stays as 0. */
function alarmGauge(registry: Registry, alarms: () => readonly string[]): Gauge<'code'> {
  const raised = new Set<string>();
  return new Gauge({
    name: 'sluice_alarm',
    help: '1 while an alarm is open, 0 when it is over',
    labelNames: ['code'],
    registers: [registry],
    collect() {
      const now = new Set(alarms());
      for (const code of now) raised.add(code);
      for (const code of raised) this.set({ code }, now.has(code) ? 1 : 0);
    },
  });
}
