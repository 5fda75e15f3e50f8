import { limits } from '../limits.ts';
import type { GenerationRecord, HistoryEntry, NodeRecord } from './record.ts';

/** The history of a record: what is written to it, and what is decided by it. */

/** The history with one more entry. */
export function historyWith(
  { history }: Pick<NodeRecord, 'history'>,
  at: string,
  entry: Omit<HistoryEntry, 'at'>,
): HistoryEntry[] {
  const because = entry.because === undefined ? {} : { because: shortened(entry.because) };
  return [...history, { at, ...entry, ...because }].slice(-limits.historyEntriesMax);
}

/**
 * Merges endpoint updates, which come every few seconds: one entry represents a whole run. An entry whose version failed before stays,
 * because it tells that the version was accepted after all.
 */
export function updated(history: readonly HistoryEntry[], to: GenerationRecord, at: string): HistoryEntry[] {
  const entry: HistoryEntry = { at, what: 'updated', generation: to.number, version: to.version };
  const last = history.at(-1);
  const isRow = last?.what === 'updated' && last.generation === to.number;
  const failed = history.some(({ what, version }) => what === 'rolled-back' && version === last?.version);
  return [...(isRow && !failed ? history.slice(0, -1) : history), entry];
}

/** Marks the last entry: its version is not to blame. */
export function withoutBlame(history: readonly HistoryEntry[]): HistoryEntry[] {
  return history.map((entry, at) => (at === history.length - 1 ? { ...entry, blameless: true } : entry));
}

export function shortened(text: string): string {
  return text.length > limits.reasonCharactersMax ? `${text.slice(0, limits.reasonCharactersMax)}…` : text;
}

/** Whether a version failed for the same reason so often since it was last accepted that it counts as bad. */
export function endsTooOften(history: readonly HistoryEntry[], bad: string, because: string): boolean {
  const since = history.findLastIndex(({ what, version }) => isTaken(what) && version === bad);
  const tries = history.slice(since + 1).filter((one) => one.version === bad && one.because === because).length;
  return tries >= limits.interruptedMax;
}

/** A release was confirmed, or an endpoint update applied. */
const isTaken = (what: HistoryEntry['what']): boolean => what === 'confirmed' || what === 'updated';

/** The number of releases that ended within a time span. Entries later than now, after the clock was set back, are not counted. */
export function releasesBetween(history: readonly HistoryEntry[], fromMs: number, toMs: number): number {
  return history.filter((entry) => {
    const atMs = Date.parse(entry.at);
    return (entry.what === 'confirmed' || isReleaseTakenBack(entry)) && atMs >= fromMs && atMs <= toMs;
  }).length;
}

/** Entries of an older `sluiced` do not tell endpoint updates from releases. */
const isReleaseTakenBack = ({ what, lane }: HistoryEntry): boolean => what === 'rolled-back' && lane !== 'endpoints';

/**
 * When a release may be tried again, in milliseconds since 1970; 0: now. The back-off begins with the third failure in a row and doubles
 * with each: the next version is likely to fix a bad one, which is quarantined anyway. A failure later than now, after the clock was set
 * back, is ignored: waiting for it could take years.
 */
export function backOffUntil({ failures, history }: NodeRecord, nowMs: number): number {
  const last = history.findLast((entry) => isReleaseTakenBack(entry) && entry.blameless !== true);
  const lastMs = last ? Date.parse(last.at) : 0;
  const beyond = failures - limits.failuresAtOnce;
  if (beyond <= 0 || !last || lastMs > nowMs) return 0;
  return lastMs + Math.min(limits.backOffMs * 2 ** (beyond - 1), limits.backOffMsMax);
}
