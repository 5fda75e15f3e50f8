import { limits } from '../../limits.ts';
import { lastingAlarm } from './alarms.ts';
import type { RunningNode } from './node.ts';

/**
 * What the daemon checks in each round besides the bundle.
 * @param refresh retries what could not be opened
 */
export function roundOf(
  { config, log, monotonicMs, session, status }: RunningNode,
  refresh: () => Promise<void>,
): () => Promise<void> {
  const backend = lastingAlarm('BACKEND_DOUBTFUL', status, log);
  let storesDueMs = -Infinity;
  return async () => {
    const share = session.reconciler.endpointShare;
    if (share > config.endpoints.alarmShare) status.raise('ENDPOINT_CHANGES_MANY', manyChanges(share));
    else status.clear('ENDPOINT_CHANGES_MANY');
    if (monotonicMs() >= storesDueMs) {
      const doubt = await session.storeDoubt();
      backend(doubt && `${doubt.message}. ${doubt.hint}`);
      storesDueMs = monotonicMs() + limits.storeDoubtMs;
    }
    await refresh();
  };
}

const manyChanges = (share: number): string =>
  `endpoint keys changed the endpoints of ${Math.round(share * 100)} % of all Services within an hour: more than endpoints.alarmShare`;
