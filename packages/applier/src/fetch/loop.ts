import { readFileSync, statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { pauseBeforeRetry, spread } from '../paces.ts';
import { type Attempt, fetchOnce, type FetchNode } from './fetch.ts';
import type { Follower } from './follow.ts';
import { fetchLimits } from './limits.ts';
import type { Source } from './source.ts';
import { readSourceStatus, type SourceStatus, statusAfter, writeSourceStatus } from './status-file.ts';

/** What the loop works with. */
export interface LoopParts {
  readonly node: FetchNode;
  /** The fetch directory. */
  readonly directory: string;
  /** The source for one attempt. */
  readonly open: () => Source;
  readonly intervalMs: number;
  /** Says when an attempt is worth it before the interval is over. */
  readonly follower?: Follower | undefined;
  /** The file in which an operator asks for an attempt. */
  readonly requestFile: string;
  readonly log: {
    info(details: object, message: string): void;
    warn(details: object, message: string): void;
  };
}

/**
 * Fetches again and again, until the signal aborts.
 * @param after called when an attempt has placed a release, or failed
 */
export async function fetchLoop(
  parts: LoopParts,
  signal: AbortSignal,
  after: () => void = () => undefined,
): Promise<void> {
  const { follower, intervalMs, node, requestFile } = parts;
  let request = requestIn(requestFile);
  while (!signal.aborted) {
    follower?.begin();
    const { status } = await attemptAndTell(parts, request);
    follower?.ended(status.outcome);
    if (status.outcome !== 'same' || status.attempts === 1) after();
    const retryMs = follower ? Math.min(fetchLimits.eventRetryMs, intervalMs) : intervalMs;
    const pauseMs = pauseAfterAttempt(status, intervalMs, node.name, retryMs);
    request = await nextRequest(parts, request, pauseMs, signal);
  }
}

/** One attempt, whose result is written to the status file and the log. @param request of an operator, to be answered */
export async function attemptAndTell(
  parts: Omit<LoopParts, 'requestFile' | 'intervalMs'>,
  request?: string,
): Promise<{ readonly attempt: Attempt; readonly status: SourceStatus }> {
  const { directory, log, node, open } = parts;
  if (request !== undefined && request !== readSourceStatus(directory)?.request) node.memory.forgetRefusal();
  const source = open();
  const attempt = await fetchOnce(source, node);
  const now = new Date(node.nowMs()).toISOString();
  // Not earlier: receipts may have been sent meanwhile.
  const before = readSourceStatus(directory);
  const status = statusAfter(before, { attempt, source: source.name, bytes: source.bytes, now, request });
  tell(log, attempt, status, before);
  try {
    writeSourceStatus(directory, status);
  } catch (error) {
    log.warn({ because: (error as Error).message }, 'cannot write the status of the source; the next attempt does');
  }
  return { attempt, status };
}

/** A lasting state is logged once. */
function tell(log: LoopParts['log'], attempt: Attempt, status: SourceStatus, before: SourceStatus | undefined): void {
  const { source, problem, serial, revision } = status;
  if (attempt.kind === 'placed')
    return log.info({ source, serial, revision, files: attempt.files }, 'placed a release');
  const isNews = problem?.message !== before?.problem?.message;
  if (problem && isNews) return log.warn({ source, ...problem }, `${attempt.kind}: nothing was changed`);
  if (!problem && before?.problem) log.info({ source }, 'the source can be read again');
}

/**
 * The pause before the next attempt: the interval, longer after each failure to read the source, and a little different for each node.
 * @param leastMs after the first failure
 * @returns milliseconds
 */
export function pauseAfterAttempt(
  { attempts, failures, outcome }: Pick<SourceStatus, 'attempts' | 'failures' | 'outcome'>,
  intervalMs: number,
  node: string,
  leastMs = intervalMs,
): number {
  const mostMs = Math.max(intervalMs, fetchLimits.pauseMsMax);
  const pauseMs = outcome === 'failed' ? pauseBeforeRetry(Math.max(failures - 1, 0), { leastMs, mostMs }) : intervalMs;
  return pauseMs * (1 + fetchLimits.jitterShare * (2 * spread(node, attempts) - 1));
}

/** Waits for the pause, for another request of an operator, or for an event. @returns the request that the file has now */
async function nextRequest(
  { follower, requestFile }: Pick<LoopParts, 'follower' | 'requestFile'>,
  known: string | undefined,
  pauseMs: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  const endMs = performance.now() + pauseMs;
  for (;;) {
    const leftMs = endMs - performance.now();
    const request = requestIn(requestFile);
    if (request !== known || leftMs <= 0 || signal.aborted || follower?.isDue) return request;
    const ms = Math.min(fetchLimits.requestPollMs, leftMs);
    await (follower?.wait(ms, signal) ?? sleep(ms, undefined, { signal }).catch(() => undefined));
  }
}

/** The request in a file; undefined: there is none. */
function requestIn(file: string): string | undefined {
  try {
    const stats = statSync(file);
    if (!stats.isFile() || stats.size > fetchLimits.requestBytesMax) return undefined;
    return readFileSync(file, 'utf8').trim();
  } catch {
    return undefined;
  }
}
