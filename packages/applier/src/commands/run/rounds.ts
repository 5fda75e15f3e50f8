import { readConntrackFill } from '../../kernel/sysctl.ts';
import { WorkCost } from '../../kernel/processor-time.ts';
import { limits, type Pace, paces, pauseAfter, pauseBeforeRetry, retries } from '../../limits.ts';
import { affinityAlarm } from '../../ports/nftables/affinity.ts';
import { mostConnections } from '../../ports/nftables/counts.ts';
import type { DaemonLog } from '../../daemon/reports.ts';
import { lastingAlarm } from './alarms.ts';
import type { RunningNode } from './node.ts';
import type { SluicedConfig } from '../../config.ts';
import { readSourceStatus, type SourceStatus } from '../../fetch/status-file.ts';
import { trustOf } from '../../inbox/trust.ts';
import type { Status } from '../../observe/status/status.ts';

type RoundDependencies = Pick<RunningNode, 'monotonicMs' | 'status'> & {
  readonly config: Pick<RunningNode['config'], 'endpoints' | 'countedServices' | 'source'>;
  readonly log: DaemonLog;
  readonly session: Pick<RunningNode['session'], 'storeDoubt' | 'nftLack' | 'affinityFills' | 'hasGained'> & {
    readonly counting: Pick<RunningNode['session']['counting'], 'counts' | 'traffic'>;
    readonly reconciler: Pick<RunningNode['session']['reconciler'], 'endpointShare'>;
    readonly journal: { readonly damage: Pick<RunningNode['session']['journal']['damage'], 'alarm'> };
  };
};

/**
 * What the daemon checks in each round besides the bundle.
 * @param refresh retries what could not be opened
 * @param readFill how many connections the kernel tracks, and can
 * @param gained called when the machine has tools that were missing when the session was opened
 */
export function roundOf(
  { config, log, monotonicMs, session, status }: RoundDependencies,
  refresh: () => Promise<void>,
  gained: () => void,
  readFill = readConntrackFill,
): () => Promise<void> {
  const backend = lastingAlarm('BACKEND_DOUBTFUL', status, log);
  const nft = lastingAlarm('NFT_CANNOT_WRITE', status, log);
  const state = lastingAlarm('STATE_DAMAGED', status, log);
  const conntrack = lastingAlarm('CONNTRACK_NEARLY_FULL', status, log);
  let isNearlyFull = false;
  const countClients = clientCount({ config, log, monotonicMs, session, status });
  const countEndpoints = endpointCount({ config, log, monotonicMs, session, status });
  const countTraffic = trafficCount({ config, log, monotonicMs, session, status });
  const lookForMore = growing(monotonicMs, async () => {
    if (await session.hasGained()) gained();
  });
  const source = sourceRound({ config, log, status }, Date.now);
  let [storesDueMs, nftDueMs] = [-Infinity, -Infinity];
  return async () => {
    const share = session.reconciler.endpointShare;
    if (share > config.endpoints.alarmShare) status.raise('ENDPOINT_CHANGES_MANY', manyChanges(share));
    else status.clear('ENDPOINT_CHANGES_MANY');
    state(session.journal.damage.alarm);
    source();
    const why = nearlyFull(readFill(), isNearlyFull);
    // The count goes up and down all the time: the text stays while the alarm does.
    if ((why === undefined) === isNearlyFull) conntrack(why);
    isNearlyFull = why !== undefined;
    if (monotonicMs() >= storesDueMs) {
      const doubt = await session.storeDoubt();
      backend(doubt && `${doubt.message}. ${doubt.hint}`);
      storesDueMs = monotonicMs() + limits.storeDoubtMs;
    }
    if (monotonicMs() >= nftDueMs) {
      const lack = await session.nftLack();
      nft(lack && `${lack.why}. ${lack.hint}`);
      nftDueMs = monotonicMs() + limits.nftCheckMs;
    }
    await lookForMore();
    // Not awaited: counting a million clients takes a minute.
    void countClients();
    void countEndpoints();
    void countTraffic();
    await refresh();
  };
}

/** @param isRaised it ends later than it begins @returns the alarm; undefined: there is room, or the kernel tracks nothing or has no limit */
function nearlyFull(fill: ReturnType<typeof readConntrackFill>, isRaised: boolean): string | undefined {
  const share = isRaised ? limits.conntrackFillClear : limits.conntrackFillAlarm;
  if (fill === undefined || fill.limit === 0 || fill.entries < share * fill.limit) return undefined;
  const percent = Math.floor((100 * fill.entries) / fill.limit);
  return `${fill.entries} of ${fill.limit} connections are tracked (${percent} %): when the table is full, new ones are dropped`;
}

/** Work that is less likely to be needed the longer it was not: the pause between two runs doubles. */
function growing(monotonicMs: () => number, work: () => Promise<void>): () => Promise<void> {
  let rounds = 0;
  let dueMs = monotonicMs() + retries.lacks.leastMs;
  return async () => {
    if (monotonicMs() < dueMs) return;
    // A tool that gives no answer is asked again.
    await work().catch(() => undefined);
    rounds += 1;
    dueMs = monotonicMs() + pauseBeforeRetry(rounds, retries.lacks);
  };
}

type CountDependencies = Pick<RoundDependencies, 'config' | 'log' | 'monotonicMs' | 'session' | 'status'>;

/** Work beside the rounds, once at a time: after each one a pause that grows with its processor time. @param work adds its cost */
function paced(
  { monotonicMs }: Pick<CountDependencies, 'monotonicMs'>,
  pace: Pace,
  work: (cost: WorkCost) => Promise<void>,
): () => Promise<void> {
  let dueMs = -Infinity;
  return async () => {
    if (monotonicMs() < dueMs) return;
    dueMs = Infinity;
    const cost = new WorkCost();
    // A tool that fails is asked again.
    await work(cost).catch(() => undefined);
    dueMs = monotonicMs() + pauseAfter(cost.usedMs, pace);
  };
}

/** Counts the clients of session affinity, and raises the alarm of a map that is nearly full. */
function clientCount(parts: CountDependencies): () => Promise<void> {
  const { log, session, status } = parts;
  const alarm = lastingAlarm('AFFINITY_NEARLY_FULL', status, log);
  let isRaised = false;
  return paced(parts, paces.affinity, async (cost) => {
    const fills = await session.affinityFills(cost);
    status.metrics.affinity(fills);
    const why = affinityAlarm(fills, isRaised);
    isRaised = why !== undefined;
    alarm(why);
  });
}

/** Reads the counters of endpoints, and logs once which of them are far from their shares. */
function endpointCount(parts: CountDependencies): () => Promise<void> {
  let known: ReadonlySet<string> = new Set();
  return paced(parts, paces.counts, async (cost) => {
    const { endpoints, services } = await parts.session.counting.counts(cost);
    if (endpoints) parts.status.connections(mostConnections(endpoints, parts.config.countedServices));
    if (!services) return;
    parts.status.services(services);
    const far = new Map(services.imbalances.map((one) => [`${one.service} ${one.endpoint}`, one]));
    for (const [id, imbalance] of far)
      if (!known.has(id)) parts.log.warn(imbalance, 'an endpoint is far from its share of new connections');
    known = new Set(far.keys());
  });
}

/** Reads live connections. */
const trafficCount = (parts: CountDependencies): (() => Promise<void>) =>
  paced(parts, paces.counts, async (cost) => {
    const services = await parts.session.counting.traffic(cost);
    if (services) parts.status.services(services);
  });

const manyChanges = (share: number): string =>
  `endpoint keys changed the endpoints of ${Math.round(share * 100)} % of all Services within an hour: more than endpoints.alarmShare`;

interface SourceParts {
  readonly config: Pick<SluicedConfig, 'source'>;
  readonly log: DaemonLog;
  readonly status: Status;
}

/**
 * Tells what the fetch process says of itself: in the status, in metrics, and as alarms. It may be any text.
 * @param nowMs the time of day
 * @returns to be called in each round
 */
export function sourceRound({ config, log, status }: SourceParts, nowMs: () => number): () => void {
  const { source } = config;
  if (source === undefined) return () => undefined;
  const [late, refused] = [lastingAlarm('SOURCE_LATE', status, log), lastingAlarm('SOURCE_REFUSED', status, log)];
  const trust = trustOf(undefined, source.directory);
  const sinceMs = nowMs();
  return () => {
    const told = readSourceStatus(source.directory, trust);
    status.source(told);
    late(lateBecause(told, source.lateSeconds * 1000, sinceMs, nowMs()));
    refused(
      told?.outcome === 'refused' ? `${told.source}: ${told.problem?.code}: ${told.problem?.message}` : undefined,
    );
  };
}

/** @param sinceMs when this process began to ask: before that the last success of a process that is new counts. @returns the alarm; undefined: it is not late */
function lateBecause(
  told: SourceStatus | undefined,
  lateMs: number,
  sinceMs: number,
  nowMs: number,
): string | undefined {
  const succeeded = told?.succeeded ?? undefined;
  const goodMs = succeeded === undefined ? sinceMs : Date.parse(succeeded);
  if (lateMs === 0 || nowMs - goodMs <= lateMs) return undefined;
  const since = succeeded === undefined ? 'sluiced started' : succeeded;
  if (told === undefined) return `the fetch process has not reported since ${since}: is sluiced-fetch.service active?`;
  const isSilent = nowMs - Date.parse(told.attempted) > lateMs;
  const why = isSilent
    ? 'the fetch process does not report: is sluiced-fetch.service active?'
    : (told.problem?.message ?? 'the fetch process does not say why');
  return `${told.source} has not been read since ${since}: ${why}`;
}
