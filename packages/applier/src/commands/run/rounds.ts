import { limits } from '../../limits.ts';
import { affinityAlarm } from '../../nftables/affinity.ts';
import type { DaemonLog } from '../../daemon/reports.ts';
import { lastingAlarm } from './alarms.ts';
import type { RunningNode } from './node.ts';

type RoundParts = Pick<RunningNode, 'monotonicMs' | 'status'> & {
  /** Processor time that this process and its children have used, in milliseconds. */
  readonly processorMs: () => number;
  readonly config: Pick<RunningNode['config'], 'endpoints'>;
  readonly log: DaemonLog;
  readonly session: Pick<RunningNode['session'], 'storeDoubt' | 'nftLack' | 'affinityFills'> & {
    readonly reconciler: Pick<RunningNode['session']['reconciler'], 'endpointShare'>;
  };
};

/**
 * What the daemon checks in each round besides the bundle.
 * @param refresh retries what could not be opened
 */
export function roundOf(
  { config, log, monotonicMs, processorMs, session, status }: RoundParts,
  refresh: () => Promise<void>,
): () => Promise<void> {
  const backend = lastingAlarm('BACKEND_DOUBTFUL', status, log);
  const nft = lastingAlarm('NFT_CANNOT_WRITE', status, log);
  const countClients = clientCount({ log, monotonicMs, processorMs, session, status });
  let [storesDueMs, nftDueMs] = [-Infinity, -Infinity];
  return async () => {
    const share = session.reconciler.endpointShare;
    if (share > config.endpoints.alarmShare) status.raise('ENDPOINT_CHANGES_MANY', manyChanges(share));
    else status.clear('ENDPOINT_CHANGES_MANY');
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
    // Not awaited: counting a million clients takes a minute.
    void countClients();
    await refresh();
  };
}

/** Counts the clients of session affinity now and then, one count at a time, and raises the alarm of a map that is nearly full. */
function clientCount({
  log,
  monotonicMs,
  processorMs,
  session,
  status,
}: Pick<RoundParts, 'log' | 'monotonicMs' | 'processorMs' | 'session' | 'status'>): () => Promise<void> {
  const alarm = lastingAlarm('AFFINITY_NEARLY_FULL', status, log);
  let [dueMs, isRaised] = [-Infinity, false];
  return async () => {
    if (monotonicMs() < dueMs) return;
    dueMs = Infinity;
    const usedMs = processorMs();
    const fills = await session.affinityFills().catch(() => undefined);
    const pauseMs = Math.max(limits.affinityCountPauseMs, (processorMs() - usedMs) * limits.affinityCountPauseFactor);
    dueMs = monotonicMs() + Math.min(pauseMs, limits.affinityCountPauseMsMax);
    if (!fills) return;
    status.affinity(fills);
    const why = affinityAlarm(fills, isRaised);
    isRaised = why !== undefined;
    alarm(why);
  };
}

const manyChanges = (share: number): string =>
  `endpoint keys changed the endpoints of ${Math.round(share * 100)} % of all Services within an hour: more than endpoints.alarmShare`;
