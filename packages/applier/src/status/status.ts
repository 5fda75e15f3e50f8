import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Accepted } from '@sluice/bundle';
import { compareText, type Problem } from '@sluice/netfilter';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { type AlarmCode, endsWithBundle, formerAlarmCodes, isUnhealthy } from './alarms.ts';
import { type NodeMemory, ProxyMetrics, TransactionMetrics } from './metrics.ts';
import type { RepairAt } from './repairs.ts';
import type { Outcome } from '../ports/outcome.ts';
import type { Generation } from '../ports/journal.ts';

/** The status of the daemon; `/status` returns it as JSON. */
export interface StatusReport {
  readonly node: string;
  readonly healthy: boolean;
  readonly generation: number | null;
  readonly version: string | null;
  /** Whether bundles must be signed; null before the config is read. */
  readonly signatures: 'required' | 'none' | null;
  /** Where new rules are rehearsed; null before the config is read. */
  readonly rehearse: 'auto' | 'unit' | 'namespace' | 'off' | null;
  /** The release that was accepted last, where signatures are required. */
  readonly release: Accepted | null;
  /** The wave that this node waits for with a release that is ready; null when it does not wait. */
  readonly waits: AwaitedWave | null;
  /** The last drift repair; null before the first. */
  readonly lastRepair: RepairAt | null;
  /** What could not be found out, by code; not necessarily a problem. */
  readonly notes: Readonly<Record<string, string>>;
  /** Problems, by code; empty when there are none. */
  readonly alarms: Readonly<Record<string, string>>;
}

/** A closed wave: its number, from 1, and its name. */
export interface AwaitedWave {
  readonly wave: number;
  readonly name: string;
}

/** Said from the start of the process until the journal has a generation and the kernel was compared with it. */
const nothingKnown =
  'no bundle was confirmed yet, or the kernel was not compared with the confirmed rules since sluiced started';

/** `FOREIGN_RULE_UNREAD`: it is not known whether a foreign rule before our jumps takes packets of Services. */
type NoteCode = 'FOREIGN_RULE_UNREAD';

/** Collects and serves the status of the daemon. Read-only: no request changes anything. */
export class Status {
  readonly #node: string;
  readonly #monotonicMs: () => number;
  readonly #stallMs: number;
  /** Every metric, with its help. */
  readonly registry = new Registry();
  readonly #alarms = new Map<AlarmCode, string>([['NO_GENERATION', nothingKnown]]);
  readonly #notes = new Map<NoteCode, string>();
  readonly #outcomes: Counter<'outcome'>;
  readonly #repairs: Counter;
  readonly #generation: Gauge;
  readonly #duration: Histogram;
  readonly #required: Gauge;
  readonly #serial: Gauge;
  readonly #expires: Gauge;
  readonly #waitingWave: Gauge;
  readonly #staleFlows: Gauge;
  #signatures: 'required' | 'none' | null = null;
  #rehearse: StatusReport['rehearse'] = null;
  #release: Accepted | null = null;
  #waits: AwaitedWave | null = null;
  #lastRepair: StatusReport['lastRepair'] = null;
  #active: Generation | undefined;
  #heartbeatMs: number;
  #transactions: TransactionMetrics | undefined;

  readonly #proxy: ProxyMetrics;
  #unseen: () => string | undefined = () => undefined;

  /**
   * @param stallMs how long the main loop may make no progress before `/livez` fails
   * @param nowMs the time of day, for metrics with a timestamp
   */
  constructor(node: string, monotonicMs: () => number, stallMs: number, nowMs: () => number = () => 0) {
    this.#proxy = new ProxyMetrics(this.registry, nowMs);
    this.#node = node;
    this.#monotonicMs = monotonicMs;
    this.#stallMs = stallMs;
    this.#heartbeatMs = monotonicMs();
    const registers = [this.registry];
    this.#outcomes = new Counter({
      name: 'sluice_outcomes_total',
      help: 'Bundles by outcome',
      labelNames: ['outcome'],
      registers,
    });
    this.#repairs = new Counter({
      name: 'sluice_repairs_total',
      help: 'Drift repairs',
      registers,
    });
    this.#generation = new Gauge({
      name: 'sluice_generation',
      help: 'The active generation; -1 before the first',
      registers,
    });
    // One that is over stays as 0.
    const alarms = (): object => this.report().alarms;
    const raised = new Set<string>();
    const shown = new Gauge({
      name: 'sluice_alarm',
      help: '1 while an alarm is open, 0 when it is over',
      labelNames: ['code'],
      registers: [],
      collect() {
        const now = new Set(Object.keys(alarms()));
        for (const code of now) raised.add(code);
        for (const code of raised) this.set({ code }, now.has(code) ? 1 : 0);
      },
    });
    this.registry.registerMetric(shown);
    const gauge = (name: string, help: string): Gauge => new Gauge({ name, help, registers });
    this.#required = gauge(
      'sluice_signatures_required',
      '1 when bundles must be signed, 0 when any bundle is accepted',
    );
    this.#serial = gauge('sluice_release_serial', 'The serial of the last accepted release; 0 before the first');
    this.#expires = gauge(
      'sluice_release_expires_timestamp_seconds',
      'When the last accepted release expires; 0 for never',
    );
    this.#waitingWave = gauge('sluice_waiting_wave', 'The wave that this node waits for; 0 for none');
    this.#staleFlows = gauge(
      'sluice_stale_flows',
      'Connections to removed endpoints that the kernel still tracks; 0 for none',
    );
    this.#duration = new Histogram({
      name: 'sluice_apply_duration_seconds',
      help: 'Time from a complete bundle to its outcome',
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
      registers,
    });
  }

  /** Adds the metrics of this memory. @param nowMs the time of day */
  remembers(memory: NodeMemory, nowMs: () => number): void {
    this.#transactions = new TransactionMetrics(this.registry, this.#monotonicMs, nowMs, memory);
  }

  /** Makes health depend on `unseen`. @param unseen why the rules are not known to be right; undefined while they are */
  watches(unseen: () => string | undefined): void {
    this.#unseen = unseen;
  }

  /** Takes an event of a transaction. */
  onEvent(event: string, details: Readonly<Record<string, unknown>>): void {
    this.#transactions?.onEvent(event, details);
    if (event === 'flows-healed') {
      this.clear('FLOWS_STALE');
      this.#staleFlows.set(0);
    }
    if (event !== 'flows-stale') return;
    const { connections, because } = details as { readonly connections: number; readonly because: string };
    this.#staleFlows.set(connections);
    const what = `Cannot forget ${connections} connections to removed endpoints yet: ${because}`;
    this.raise('FLOWS_STALE', `${what}; UDP clients keep using those endpoints for as long as they send`);
  }

  /** Marks progress of the main loop. */
  heartbeat(): void {
    this.#heartbeatMs = this.#monotonicMs();
  }

  get alive(): boolean {
    return this.#silentMs < this.#stallMs;
  }

  get #silentMs(): number {
    return this.#monotonicMs() - this.#heartbeatMs;
  }

  #stall(): string {
    return `main loop has not made progress for ${Math.round(this.#silentMs / 1000)} s\n`;
  }

  /** Whether the rules in the kernel are known to be right, and kept so. */
  get healthy(): boolean {
    return (
      this.alive &&
      this.#transactions?.refusal === undefined &&
      this.#unseen() === undefined &&
      ![...this.#alarms.keys()].some(isUnhealthy)
    );
  }

  activate(generation: Generation | undefined): void {
    this.#active = generation;
    if (generation) this.clear('NO_GENERATION');
    this.#generation.set(generation?.number ?? -1);
    this.#proxy.activate(generation);
  }

  /** Sets where the config has rules rehearsed. */
  rehearses(where: NonNullable<StatusReport['rehearse']>): void {
    this.#rehearse = where;
  }

  /** Sets the signature policy of the config. */
  signatures(policy: 'required' | 'none'): void {
    this.#signatures = policy;
    this.#required.set(policy === 'required' ? 1 : 0);
  }

  /** Takes the accepted release in the directory; its alarms stay raised until the next one. */
  accepted(release: Accepted | undefined, alarms: readonly Problem[]): void {
    if (release === undefined) return;
    this.#release = release;
    this.#serial.set(release.serial);
    this.#expires.set(release.expires === undefined ? 0 : Date.parse(release.expires) / 1000);
    this.clear('RELEASE_EXPIRED', 'RELEASE_SIGNERS_CHANGED');
    for (const { code, message } of alarms) this.raise(code, message);
  }

  /** Sets the wave that a ready release waits for; undefined: none. */
  waits(awaited: AwaitedWave | undefined): void {
    this.#waits = awaited === undefined ? null : { wave: awaited.wave, name: awaited.name };
    this.#waitingWave.set(this.#waits?.wave ?? 0);
  }

  /** @param why undefined clears the note */
  note(code: NoteCode, why: string | undefined): void {
    if (why === undefined) this.#notes.delete(code);
    else this.#notes.set(code, why);
  }

  raise(code: AlarmCode, why: string): void {
    this.#alarms.set(code, why);
  }

  clear(...codes: readonly AlarmCode[]): void {
    for (const code of codes) this.#alarms.delete(code);
  }

  /** Raises the problems of a bundle as alarms, until a bundle is applied or the directory is as before. */
  refused(problems: readonly Problem[]): void {
    this.clearBundle();
    for (const problem of problems) this.raise(problem.code, problem.message);
  }

  clearBundle(): void {
    this.clear(...[...this.#alarms.keys()].filter(endsWithBundle));
  }

  ended(outcome: Outcome, seconds: number): void {
    this.#outcomes.inc({ outcome: outcome.kind });
    if (outcome.kind === 'same') this.#transactions?.isIn();
    this.#duration.observe(seconds);
    this.#proxy.synced(outcome, seconds);
  }

  /** Counts a drift repair. */
  repaired(repair: RepairAt): void {
    this.#repairs.inc();
    this.#lastRepair = repair;
  }

  /** Raised alarms under the codes that they had before: alert rules that know only these keep working. Remove after one minor version. */
  *#formerCodes(): Iterable<readonly [string, string]> {
    for (const [code, former] of Object.entries(formerAlarmCodes)) {
      const why = this.#alarms.get(code as keyof typeof formerAlarmCodes);
      if (why !== undefined) yield [former, why];
    }
  }

  report(): StatusReport {
    const derived = { KERNEL_REFUSES: this.#transactions?.refusal, RULES_UNSEEN: this.#unseen() };
    const raised = [
      ...this.#alarms,
      ...this.#formerCodes(),
      ...Object.entries(derived).flatMap(([code, why]) => (why === undefined ? [] : [[code, why] as const])),
    ];
    const alarms = Object.fromEntries(raised.toSorted(([a], [b]) => compareText(a, b)));
    return {
      node: this.#node,
      healthy: this.healthy,
      generation: this.#active?.number ?? null,
      version: this.#active?.version ?? null,
      signatures: this.#signatures,
      rehearse: this.#rehearse,
      release: this.#release,
      waits: this.#waits,
      lastRepair: this.#lastRepair,
      notes: Object.fromEntries(this.#notes),
      alarms,
    };
  }

  /** Answers /healthz, /livez, /metrics and /status. */
  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const send = (code: number, type: string, body: string): void => {
      response.writeHead(code, { 'content-type': type }).end(body);
    };
    if (request.method !== 'GET' && request.method !== 'HEAD') return send(405, 'text/plain', 'only GET\n');
    const report = this.report();
    const json = (): string => `${JSON.stringify(report, undefined, 2)}\n`;
    switch (request.url ?? '') {
      case '/livez':
        this.#proxy.livez(this.alive ? 200 : 503);
        return send(this.alive ? 200 : 503, 'text/plain', this.alive ? 'ok\n' : this.#stall());
      case '/healthz':
        this.#proxy.healthz(report.healthy ? 200 : 503);
        return send(report.healthy ? 200 : 503, 'application/json', json());
      case '/status':
        return send(200, 'application/json', json());
      case '/metrics':
        return send(200, this.registry.contentType, await this.registry.metrics());
      default:
        return send(404, 'text/plain', 'not found; there are /healthz, /livez, /metrics and /status\n');
    }
  }
}
