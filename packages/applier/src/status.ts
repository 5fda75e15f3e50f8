import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Accepted, compareText, type Problem } from '@sluice/bundle';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { type AlarmCode, endsWithBundle, isUnhealthy } from './alarms.ts';
import { type NodeMemory, ProxyMetrics, TransactionMetrics } from './metrics.ts';
import type { RepairAt } from './repairs.ts';
import type { Outcome } from './rollout/outcome.ts';
import type { Generation } from './rollout/ports.ts';

/** What the daemon says about itself; `/status` has it as JSON. */
export interface StatusReport {
  readonly node: string;
  readonly healthy: boolean;
  readonly generation: number | null;
  readonly version: string | null;
  /** Whether bundles must be signed; null before the config said so. */
  readonly signatures: 'required' | 'none' | null;
  /** Where new forms of rules are loaded first, as the config says; null before it said so. */
  readonly rehearse: 'auto' | 'unit' | 'namespace' | 'off' | null;
  /** The release that was accepted last, where signatures are required. */
  readonly release: Accepted | null;
  /** The wave that this node waits for with a release that is ready; null on most days. */
  readonly waits: AwaitedWave | null;
  /** The last time that rules changed by others were put right; null before the first. */
  readonly lastRepair: RepairAt | null;
  /** What could not be found out, by code; nothing has to be wrong. */
  readonly notes: Readonly<Record<string, string>>;
  /** What is not as it should be, by code; empty when all is well. */
  readonly alarms: Readonly<Record<string, string>>;
}

/** A wave that is not open yet: its number, from 1, and its name. */
export interface AwaitedWave {
  readonly wave: number;
  readonly name: string;
}

/** Said from the start of the process until the journal has a generation and the kernel was compared with it. */
const nothingKnown =
  'no bundle was confirmed yet, or the kernel was not compared with the confirmed rules since sluiced started';

/** `FOREIGN_RULE_UNREAD`: whether a foreign rule before our jumps takes packets of Services. */
type NoteCode = 'FOREIGN_RULE_UNREAD';

/** Collects what the daemon knows and tells it. Read-only: no request changes anything. */
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
  #beatMs: number;
  #transactions: TransactionMetrics | undefined;

  readonly #proxy: ProxyMetrics;
  #unseen: () => string | undefined = () => undefined;

  /**
   * @param stallMs how long the loop may be silent before `/livez` fails
   * @param nowMs the time of day, for metrics that hold one
   */
  constructor(node: string, monotonicMs: () => number, stallMs: number, nowMs: () => number = () => 0) {
    this.#proxy = new ProxyMetrics(this.registry, nowMs);
    this.#node = node;
    this.#monotonicMs = monotonicMs;
    this.#stallMs = stallMs;
    this.#beatMs = monotonicMs();
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
    this.#required = gauge('sluice_signatures_required', '1 when bundles must be signed, 0 when any bundle is taken');
    this.#serial = gauge(
      'sluice_release_serial',
      'The serial of the release that was accepted last; 0 before the first',
    );
    this.#expires = gauge('sluice_release_expires_timestamp_seconds', 'When that release expires; 0 for never');
    this.#waitingWave = gauge('sluice_waiting_wave', 'The wave that this node waits for with a release; 0 for none');
    this.#staleFlows = gauge(
      'sluice_stale_flows',
      'Connections to removed endpoints that the kernel still holds; 0 for none',
    );
    this.#duration = new Histogram({
      name: 'sluice_apply_duration_seconds',
      help: 'From a complete bundle to its outcome',
      buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
      registers,
    });
  }

  /** From now on metrics say what this memory says. @param nowMs the time of day */
  remembers(memory: NodeMemory, nowMs: () => number): void {
    this.#transactions = new TransactionMetrics(this.registry, this.#monotonicMs, nowMs, memory);
  }

  /** From now on the rules are healthy only while somebody looks. @param unseen why they are not known to be right */
  watches(unseen: () => string | undefined): void {
    this.#unseen = unseen;
  }

  /** Takes what a transaction says on its way. */
  heard(event: string, details: Readonly<Record<string, unknown>>): void {
    this.#transactions?.heard(event, details);
    if (event === 'flows-healed') {
      this.clear('FLOWS_STALE');
      this.#staleFlows.set(0);
    }
    if (event !== 'flows-stale') return;
    const { connections, because } = details as { readonly connections: number; readonly because: string };
    this.#staleFlows.set(connections);
    const what = `Cannot forget ${connections} connections that lead to removed endpoints yet: ${because}`;
    this.raise('FLOWS_STALE', `${what}; their clients of UDP stay there as long as they send`);
  }

  /** The loop is alive. */
  beat(): void {
    this.#beatMs = this.#monotonicMs();
  }

  get alive(): boolean {
    return this.#monotonicMs() - this.#beatMs < this.#stallMs;
  }

  /** The rules in the kernel are known to be kept right. */
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

  /** Where the config has rules rehearsed. */
  rehearses(where: NonNullable<StatusReport['rehearse']>): void {
    this.#rehearse = where;
  }

  /** What the config asks for. */
  signatures(policy: 'required' | 'none'): void {
    this.#signatures = policy;
    this.#required.set(policy === 'required' ? 1 : 0);
  }

  /** A release was taken, or still stands in the directory; what is to be known of it stands as alarms until that changes. */
  accepted(release: Accepted | undefined, alarms: readonly Problem[]): void {
    if (release === undefined) return;
    this.#release = release;
    this.#serial.set(release.serial);
    this.#expires.set(release.expires === undefined ? 0 : Date.parse(release.expires) / 1000);
    this.clear('RELEASE_EXPIRED', 'RELEASE_SIGNERS_CHANGED');
    for (const { code, message } of alarms) this.raise(code, message);
  }

  /** A release is ready and waits for its wave, or nothing waits. */
  waits(awaited: AwaitedWave | undefined): void {
    this.#waits = awaited === undefined ? null : { wave: awaited.wave, name: awaited.name };
    this.#waitingWave.set(this.#waits?.wave ?? 0);
  }

  /** @param why undefined: it is known now */
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

  /** Problems of a bundle stand as alarms until a bundle is taken or the directory is as it was. */
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

  /** Rules that others changed were put right. */
  repaired(repair: RepairAt): void {
    this.#repairs.inc();
    this.#lastRepair = repair;
  }

  report(): StatusReport {
    const asked = { KERNEL_REFUSES: this.#transactions?.refusal, RULES_UNSEEN: this.#unseen() };
    const raised = [
      ...this.#alarms,
      ...Object.entries(asked).flatMap(([code, why]) => (why === undefined ? [] : [[code, why] as const])),
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
        return send(this.alive ? 200 : 503, 'text/plain', this.alive ? 'ok\n' : 'the loop stands still\n');
      case '/healthz':
        this.#proxy.healthz(report.healthy ? 200 : 503);
        return send(report.healthy ? 200 : 503, 'application/json', json());
      case '/status':
        return send(200, 'application/json', json());
      case '/metrics':
        return send(200, this.registry.contentType, await this.registry.metrics());
      default:
        return send(404, 'text/plain', 'there are /healthz, /livez, /metrics and /status\n');
    }
  }
}
