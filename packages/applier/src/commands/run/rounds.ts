import { limits } from '../../limits.ts';
import type { DaemonLog } from '../../daemon/reports.ts';
import { lastingAlarm } from './alarms.ts';
import type { RunningNode } from './node.ts';

type RoundParts = Pick<RunningNode, 'monotonicMs' | 'status'> & {
  readonly config: Pick<RunningNode['config'], 'endpoints'>;
  readonly log: DaemonLog;
  readonly session: Pick<RunningNode['session'], 'storeDoubt' | 'nftLack'> & {
    readonly reconciler: Pick<RunningNode['session']['reconciler'], 'endpointShare'>;
  };
};

/**
 * What the daemon checks in each round besides the bundle.
 * @param refresh retries what could not be opened
 */
export function roundOf(
  { config, log, monotonicMs, session, status }: RoundParts,
  refresh: () => Promise<void>,
): () => Promise<void> {
  const backend = lastingAlarm('BACKEND_DOUBTFUL', status, log);
  const nft = lastingAlarm('NFT_CANNOT_WRITE', status, log);
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
    await refresh();
  };
}

const manyChanges = (share: number): string =>
  `endpoint keys changed the endpoints of ${Math.round(share * 100)} % of all Services within an hour: more than endpoints.alarmShare`;
