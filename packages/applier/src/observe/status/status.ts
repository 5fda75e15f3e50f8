import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Accepted, Ineligibility } from '@sluice/bundle';
import { compareText, type Problem } from '@sluice/netfilter';
import type { Registry } from 'prom-client';
import type { DrainState, DrainView } from '../../ports/drain.ts';
import type { Imbalance } from '../../apply/counts/balance.ts';
import type { ServiceConnections } from '../../apply/counts/most.ts';
import type { ServiceReport, TrafficSummary } from '../../apply/counts/service-counts.ts';
import type { FrontendConnections } from '../../ports/nftables/counts.ts';
import type { SourceStatus } from '../../fetch/status-file.ts';
import type { NftProtection } from '../../ports/nftables/ports.ts';
import type { Generation } from '../../ports/journal.ts';
import { describePartial, type Outcome } from '../../ports/outcome.ts';
import { type AlarmCode, endsWithBundle, formerAlarmCodes, isUnhealthy, saysWrong } from './alarms.ts';
import type { ProxyView } from './kube-proxy-ports.ts';
import type { NodeMemory } from './metrics.ts';
import type { RepairAt } from './repairs.ts';
import { StatusMetrics } from './status-metrics.ts';

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
  /** What the fetch process says; null without a source, or before its first attempt. */
  readonly source: SourceStatus | null;
  /** The wave that this node waits for with a release that is ready; null when it does not wait. */
  readonly waits: AwaitedWave | null;
  /** How the node is drained; null: it is not. */
  readonly draining: DrainState | null;
  /** Why the cluster wants no new connections here, as a taint says; null: it does not say that. */
  readonly ineligible: Ineligibility | null;
  /** When the last finished look at the bundle directory began, and when the next one comes by itself, RFC 3339; null: not known yet. */
  readonly looked: string | null;
  readonly nextLook: string | null;
  /** How many seconds ago the kernel was last known to hold the active generation; a change that is in progress counts as 0. */
  readonly rulesSeenSeconds: number;
  /** The last drift repair; null before the first. */
  readonly lastRepair: RepairAt | null;
  /** How the table of mode nftables is protected from other programs; null in other modes. */
  readonly protection: NftProtection | null;
  /** New connections of the frontends that have most, where the profile counts them; null elsewhere. */
  readonly connections: readonly FrontendConnections[] | null;
  /** New and live connections of the Services that have most, where the config or the profile has them counted; null elsewhere. */
  readonly services: readonly ServiceConnections[] | null;
  /** The endpoints that have far more or fewer connections than their shares, 50 at most; null where nothing is counted. */
  readonly imbalances: readonly Imbalance[] | null;
  /** The seconds between the last two readings of new connections in `services`; null before the second one. */
  readonly countedSeconds: number | null;
  /** How live connections in `services` are read; null where the config (`countTraffic`) does not ask for them. */
  readonly traffic: TrafficSummary | null;
  /** What could not be found out, by code; not necessarily a problem. */
  readonly notes: Readonly<Record<string, string>>;
  /** Problems, by code; empty when there are none. */
  readonly alarms: Readonly<Record<string, string>>;
}

/** What is known of the rules in the kernel. */
export interface Sight {
  /** How long ago they were last known to be right, in milliseconds. */
  readonly ageMs: number;
  /** Why that is too long; undefined while it is not. */
  readonly why: string | undefined;
}

/** What health depends on besides alarms, computed when it is asked for. */
interface Watched {
  readonly sight: () => Sight;
  /** The tool that has not ended for too long, and for how long; undefined: none. */
  readonly slowTool: () => string | undefined;
  /** Whether the node is drained, and who was told. */
  readonly drain?: DrainView;
}

/** A closed wave: its number, from 1, and its name. */
export interface AwaitedWave {
  readonly wave: number;
  readonly name: string;
}

/** Said from the start of the process until the journal has a generation and the kernel was compared with it. */
const nothingKnown =
  'no bundle was confirmed yet, or the kernel was not compared with the confirmed rules since sluiced started';

/**
 * `FOREIGN_RULE_UNREAD`: it is not known whether a foreign rule before our jumps takes packets of Services. `LIVE_ENDPOINTS`: those of some
 * Services are not taken, or Services of the cluster are not in the release.
 */
type NoteCode = 'FOREIGN_RULE_UNREAD' | 'LIVE_ENDPOINTS';

/** What the status reports besides what is computed when it is asked for. */
type ReportedFacts = Omit<
  StatusReport,
  'node' | 'healthy' | 'rulesSeenSeconds' | 'draining' | 'ineligible' | 'notes' | 'alarms'
>;

/** Collects and serves the status of the daemon. Read-only: no request changes anything. */
export class Status {
  readonly #node: string;
  readonly #monotonicMs: () => number;
  readonly #nowMs: () => number;
  readonly #stallMs: number;
  /** When the main loop made progress last. */
  #beatMs: number;
  readonly metrics: StatusMetrics;
  readonly #alarms = new Map<AlarmCode, string>([['NO_GENERATION', nothingKnown]]);
  readonly #notes = new Map<NoteCode, string>();
  #facts: ReportedFacts = {
    generation: null,
    version: null,
    signatures: null,
    rehearse: null,
    release: null,
    source: null,
    waits: null,
    looked: null,
    nextLook: null,
    lastRepair: null,
    protection: null,
    connections: null,
    services: null,
    imbalances: null,
    countedSeconds: null,
    traffic: null,
  };
  #watched: Watched = { sight: () => ({ ageMs: 0, why: undefined }), slowTool: () => undefined };

  /**
   * @param stallMs how long the main loop may make no progress before `/livez` fails
   * @param nowMs the time of day, for metrics with a timestamp
   */
  constructor(node: string, monotonicMs: () => number, stallMs: number, nowMs: () => number = () => 0) {
    this.#node = node;
    this.#monotonicMs = monotonicMs;
    this.#nowMs = nowMs;
    this.#stallMs = stallMs;
    this.#beatMs = monotonicMs();
    this.metrics = new StatusMetrics(() => this.report(), nowMs);
  }

  get registry(): Registry {
    return this.metrics.registry;
  }

  /** Adds the metrics of this memory. @param nowMs the time of day */
  remembers(memory: NodeMemory, nowMs: () => number): void {
    this.metrics.remembers(memory, this.#monotonicMs, nowMs);
  }

  /** Makes health depend on how old the knowledge of the rules is, on tools that do not end, and answers to load balancers on a drain. */
  watches(watched: Watched): void {
    this.#watched = watched;
  }

  /** Takes an event of a transaction. */
  onEvent(event: string, details: Readonly<Record<string, unknown>>): void {
    this.metrics.transactions?.onEvent(event, details);
    if (event === 'flows-healed') {
      this.clear('FLOWS_STALE');
      this.metrics.gauges.staleFlows.set(0);
    }
    if (event !== 'flows-stale') return;
    const { connections, because } = details as { readonly connections?: number; readonly because: string };
    this.metrics.gauges.staleFlows.set(connections ?? 1);
    const what = `Cannot forget ${connections === undefined ? '' : `${connections} `}connections to removed endpoints yet: ${because}`;
    this.raise('FLOWS_STALE', `${what}; UDP clients keep using those endpoints for as long as they send`);
  }

  /** Marks progress of the main loop. */
  heartbeat(): void {
    this.#beatMs = this.#monotonicMs();
  }

  /** Whether the main loop makes progress. */
  get alive(): boolean {
    return this.#stall === undefined;
  }

  /** Why it counts as stalled; undefined while it makes progress. */
  get #stall(): string | undefined {
    const silentMs = this.#monotonicMs() - this.#beatMs;
    const seconds = Math.round(silentMs / 1000);
    return silentMs < this.#stallMs ? undefined : `main loop has not made progress for ${seconds} s`;
  }

  /** Whether the rules in the kernel are known to be right, and kept so. */
  get healthy(): boolean {
    return (
      this.alive &&
      Object.values(this.#derived).every((why) => why === undefined) &&
      ![...this.#alarms.keys()].some(isUnhealthy)
    );
  }

  activate(generation: Generation | undefined): void {
    this.#facts = { ...this.#facts, generation: generation?.number ?? null, version: generation?.version ?? null };
    if (generation) this.clear('NO_GENERATION');
    if (generation?.partial) this.raise('RELEASE_PARTIAL', describePartial(generation.partial));
    else this.clear('RELEASE_PARTIAL');
    this.metrics.activate(generation);
  }

  /** Sets whether the kernel lacks the bundle of the directory. @param begins a change to it begins now */
  pending(isPending: boolean, begins = false): void {
    this.metrics.gauges.pending.set(isPending ? 1 : 0);
    if (begins) this.metrics.proxy.queued();
  }

  /** A look at the bundle directory is finished. @param beganMs by the monotonic clock */
  looked(beganMs: number): void {
    this.#facts = { ...this.#facts, looked: this.#timeOf(beganMs) };
  }

  /** Sets when the next look comes by itself. @param atMs by the monotonic clock */
  looksAgain(atMs: number): void {
    this.#facts = { ...this.#facts, nextLook: this.#timeOf(atMs) };
  }

  #timeOf(monotonicMs: number): string {
    return new Date(this.#nowMs() + monotonicMs - this.#monotonicMs()).toISOString();
  }

  /** Sets where the config has rules rehearsed. */
  rehearses(where: NonNullable<StatusReport['rehearse']>): void {
    this.#facts = { ...this.#facts, rehearse: where };
  }

  /** Sets how the table of mode nftables is protected; undefined in other modes. */
  protects(protection: NftProtection | undefined): void {
    this.#facts = { ...this.#facts, protection: protection ?? null };
    this.metrics.gauges.owned.set(protection?.kind === 'owned' ? 1 : 0);
  }

  /** Sets the connections of the frontends that have most. */
  connections(frontends: readonly FrontendConnections[]): void {
    this.#facts = { ...this.#facts, connections: frontends };
    this.metrics.connections(frontends);
  }

  /** Sets the connections of the Services that have most. */
  services({ services, imbalances, seconds, traffic, most }: ServiceReport): void {
    this.#facts = { ...this.#facts, services, imbalances, countedSeconds: seconds, traffic };
    this.metrics.traffic.take(services, most);
  }

  /** Sets the signature policy of the config. */
  signatures(policy: 'required' | 'none'): void {
    this.#facts = { ...this.#facts, signatures: policy };
    this.metrics.gauges.required.set(policy === 'required' ? 1 : 0);
  }

  /** Takes the accepted release in the directory; its alarms stay raised until the next one. */
  accepted(release: Accepted | undefined, alarms: readonly Problem[]): void {
    if (release === undefined) return;
    this.#facts = { ...this.#facts, release };
    this.metrics.accepted(release);
    this.clear('RELEASE_EXPIRED', 'RELEASE_SIGNERS_CHANGED');
    for (const { code, message } of alarms) this.raise(code, message);
  }

  /** Takes what the fetch process says; undefined: nothing yet. */
  source(status: SourceStatus | undefined): void {
    this.#facts = { ...this.#facts, source: status ?? null };
    if (status) this.metrics.source(status);
  }

  /** Sets the wave that a ready release waits for; undefined: none. */
  waits(awaited: AwaitedWave | undefined): void {
    const waits = awaited === undefined ? null : { wave: awaited.wave, name: awaited.name };
    this.#facts = { ...this.#facts, waits };
    this.metrics.gauges.waitingWave.set(waits?.wave ?? 0);
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
    this.metrics.ended(outcome, seconds);
  }

  /** Counts a drift repair. */
  repaired(repair: RepairAt): void {
    this.#facts = { ...this.#facts, lastRepair: repair };
    this.metrics.repairs.inc();
  }

  /** Alarms that are not raised, but computed when they are asked for. All make the node unhealthy. */
  get #derived() {
    return {
      KERNEL_REFUSES: this.metrics.transactions?.refusal,
      RULES_UNSEEN: this.#watched.sight().why,
      TOOL_SLOW: this.#watched.slowTool(),
    } as const satisfies Partial<Record<AlarmCode, string | undefined>>;
  }

  /** Raised alarms under the codes that they had before: alert rules that know only these keep working. Remove after one minor version. */
  *#formerCodes(): Iterable<readonly [string, string]> {
    for (const [code, former] of Object.entries(formerAlarmCodes)) {
      const why = this.#alarms.get(code as keyof typeof formerAlarmCodes);
      if (why !== undefined) yield [former, why];
    }
  }

  report(): StatusReport {
    const raised = [
      ...this.#alarms,
      ...this.#formerCodes(),
      ...Object.entries(this.#derived).flatMap(([code, why]) => (why === undefined ? [] : [[code, why] as const])),
    ];
    const alarms = Object.fromEntries(raised.toSorted(([a], [b]) => compareText(a, b)));
    return {
      node: this.#node,
      healthy: this.healthy,
      rulesSeenSeconds: Math.round(this.#watched.sight().ageMs / 1000),
      draining: this.#watched.drain?.now ?? null,
      ineligible: this.#watched.drain?.ineligible ?? null,
      ...this.#facts,
      notes: Object.fromEntries(this.#notes),
      alarms,
    };
  }

  /** What the ports of kube-proxy tell, which know no alarms. */
  get proxyView(): ProxyView {
    const { proxy } = this.metrics;
    return {
      healthy: this.healthy,
      alive: this.alive,
      lastSyncedMs: proxy.lastSyncedMs,
      mode: proxy.mode,
      registry: this.registry,
      nowMs: this.#nowMs(),
      eligible: !this.#watched.drain?.now && !this.#watched.drain?.ineligible,
      answered: (path, code, address) => {
        proxy[path](code);
        if (path === 'healthz') this.#watched.drain?.answers(address);
      },
    };
  }

  /** Answers /healthz, /livez, /readyz, /metrics and /status. */
  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const send = (code: number, type: string, body: string): void =>
      void response.writeHead(code, { 'content-type': type }).end(body);
    if (request.method !== 'GET' && request.method !== 'HEAD') return send(405, 'text/plain', 'only GET\n');
    const report = this.report();
    const stall = this.#stall;
    const judge = (wrong = stall): void => send(wrong ? 503 : 200, 'text/plain', `${wrong ?? 'ok'}\n`);
    const json = (): string => `${JSON.stringify(report, undefined, 2)}\n`;
    switch (request.url ?? '') {
      case '/livez':
        this.metrics.proxy.livez(stall ? 503 : 200);
        return judge();
      case '/readyz':
        return judge(stall ?? Object.keys(report.alarms).find(saysWrong));
      case '/healthz':
        this.metrics.proxy.healthz(report.healthy ? 200 : 503);
        return send(report.healthy ? 200 : 503, 'application/json', json());
      case '/status':
        return send(200, 'application/json', json());
      case '/metrics':
        return send(200, this.registry.contentType, await this.registry.metrics());
      default:
        return send(404, 'text/plain', 'not found; there are /healthz, /livez, /readyz, /metrics, /status, /vip/IP\n');
    }
  }
}
