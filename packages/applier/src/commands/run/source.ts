import type { SluicedConfig } from '../../config.ts';
import type { DaemonLog } from '../../daemon/reports.ts';
import { readSourceStatus, type SourceStatus } from '../../fetch/status-file.ts';
import { trustOf } from '../../inbox/trust.ts';
import type { Status } from '../../observe/status/status.ts';
import { lastingAlarm } from './alarms.ts';

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
