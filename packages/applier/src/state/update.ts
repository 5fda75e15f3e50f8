import type { IpvsTimeouts } from '@sluice/netfilter';
import { limits } from '../limits.ts';
import type { Fault } from '../ports/journal.ts';
import { recent, remember, updated } from './keep.ts';
import type { GenerationRecord, HistoryEntry, NodeRecord, OpenRecord } from './record.ts';

/** Changes of the record while a transaction is open. */

/** Every generation that a record names. */
export function generationsOf({ kept, current, open }: NodeRecord): readonly GenerationRecord[] {
  const ofOpen = open ? [open.from, open.to, ...(open.update ? [open.update.from, open.update.to] : [])] : [];
  return [...kept, ...(current ? [current] : []), ...ofOpen];
}

/** The digests of the flows that an open transaction changes. */
export function flowsOf({ open }: NodeRecord): readonly string[] {
  return open ? [open.flows, ...(open.update ? [open.update.flows] : [])] : [];
}

/** A kept generation. Without a revision: its newest active one, not one in progress. */
export function findGeneration(
  record: NodeRecord,
  number: number,
  revision: number | undefined,
): GenerationRecord | undefined {
  const { kept, current } = record;
  if (revision === undefined) return [...kept, ...(current ? [current] : [])].findLast((one) => one.number === number);
  return generationsOf(record).findLast((one) => one.number === number && one.revision === revision);
}

/** The record when a transaction begins; the first one remembers the values from before Sluice. */
export function opened(record: NodeRecord, open: OpenRecord, timeouts: IpvsTimeouts | undefined): NodeRecord {
  const { originals, originalTimeouts = timeouts } = record;
  return {
    ...record,
    open,
    originals: { ...open.sysctls, ...originals },
    ...(originalTimeouts ? { originalTimeouts } : {}),
  };
}

/** The record when the kernel holds `open.update` in both programs. */
export function accepted(record: NodeRecord, at: string): NodeRecord {
  const { open, kept, history } = record;
  if (!open?.update) throw new Error('nothing was offered');
  const { update, began = open.version, ...rest } = open;
  const { from, to, version, flows } = update;
  return {
    ...record,
    current: from,
    kept: recent([...kept.filter(({ number }) => number !== from.number), from]),
    open: { ...rest, from, to, version, flows, began },
    history: from.revision === open.from.revision ? history : updated(history, from, at),
  };
}

/**
 * The record after an open transaction was rolled back. A version that is bad, or crashes too often, is quarantined; only failed releases
 * make later ones wait.
 * @param record with its history including this entry, which `endingOf` makes
 */
export function abandoned(record: NodeRecord, open: OpenRecord, because: string, fault: Fault): NodeRecord {
  const isBad = fault === 'bundle' || (fault === 'process' && endsTooOften(record.history, open.version, because));
  if (!isBad) return { ...record, open: null, history: withoutBlame(record.history) };
  const failures = record.failures + (open.lane === 'release' ? 1 : 0);
  return { ...record, open: null, failures, quarantined: quarantinedWith(record, open, because) };
}

/** The history entry of an open transaction that was rolled back. */
export function endingOf({ from, version, lane }: OpenRecord, because: string): Omit<HistoryEntry, 'at'> {
  const ofLane = lane === 'endpoints' ? { lane } : {};
  return { what: 'rolled-back', generation: from.number, version, because, ...ofLane };
}

function withoutBlame(history: readonly HistoryEntry[]): HistoryEntry[] {
  return history.map((entry, at) => (at === history.length - 1 ? { ...entry, blameless: true } : entry));
}

/**
 * Quarantines the versions of a transaction: its own, and the one that it began with. An endpoint update of the active generation has that
 * one's version, which stays good.
 */
function quarantinedWith(
  { quarantined }: NodeRecord,
  { version, began = version, from }: OpenRecord,
  because: string,
): Record<string, string> {
  const versions = [...new Set([began, version])].filter((one) => one !== from.version);
  return versions.reduce((all, one) => remember(all, one, because), { ...quarantined });
}

/** Whether a version failed for the same reason so often since it was last accepted that it counts as bad. */
function endsTooOften(history: readonly HistoryEntry[], bad: string, because: string): boolean {
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

/** The record of a node without any rules of Sluice; keeps history and quarantined versions. */
export function forgotten(record: NodeRecord): NodeRecord {
  const { originalTimeouts: _, ...others } = record;
  return { ...others, current: null, kept: [], open: null, held: null, originals: {}, draining: [] };
}
