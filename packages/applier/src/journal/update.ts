import type { IpvsTimeouts } from '@sluice/bundle';
import { limits } from '../limits.ts';
import type { Fault } from '../rollout/ports.ts';
import { recent, remember, updated } from './keep.ts';
import type { GenerationRecord, HistoryEntry, NodeRecord, OpenRecord } from './record.ts';

/** What becomes of the record while a transaction is open. */

/** Every generation that a record names. */
export function generationsOf({ kept, current, open }: NodeRecord): readonly GenerationRecord[] {
  const ofOpen = open ? [open.from, open.to, ...(open.update ? [open.update.from, open.update.to] : [])] : [];
  return [...kept, ...(current ? [current] : []), ...ofOpen];
}

/** The digests of the flows that an open transaction changes. */
export function flowsOf({ open }: NodeRecord): readonly string[] {
  return open ? [open.flows, ...(open.update ? [open.update.flows] : [])] : [];
}

/** A generation that is kept. Without a revision the newest that stood: not one that is on its way. */
export function findGeneration(
  record: NodeRecord,
  number: number,
  revision: number | undefined,
): GenerationRecord | undefined {
  const { kept, current } = record;
  if (revision === undefined) return [...kept, ...(current ? [current] : [])].findLast((one) => one.number === number);
  return generationsOf(record).findLast((one) => one.number === number && one.revision === revision);
}

/** The record of a transaction that begins. What was there before Sluice is remembered at the first time. */
export function opened(record: NodeRecord, open: OpenRecord, timeouts: IpvsTimeouts | undefined): NodeRecord {
  const { originals, originalTimeouts = timeouts } = record;
  return {
    ...record,
    open,
    originals: { ...open.sysctls, ...originals },
    ...(originalTimeouts ? { originalTimeouts } : {}),
  };
}

/** The record once the kernel holds what `open.update` says, in both programs. */
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
 * The record once an open transaction was taken back. A version that is bad, or ends too often, is not applied again by itself; only
 * releases that fail make those after them wait.
 * @param record with its history up to this ending, which `endingOf` makes
 */
export function abandoned(record: NodeRecord, open: OpenRecord, because: string, fault: Fault): NodeRecord {
  const isBad = fault === 'bundle' || (fault === 'process' && endsTooOften(record.history, open.version, because));
  if (!isBad) return { ...record, open: null, history: withoutBlame(record.history) };
  const failures = record.failures + (open.lane === 'release' ? 1 : 0);
  return { ...record, open: null, failures, quarantined: quarantinedWith(record, open, because) };
}

/** What the history says of an open transaction that was taken back. */
export function endingOf({ from, version, lane }: OpenRecord, because: string): Omit<HistoryEntry, 'at'> {
  const ofLane = lane === 'endpoints' ? { lane } : {};
  return { what: 'rolled-back', generation: from.number, version, because, ...ofLane };
}

function withoutBlame(history: readonly HistoryEntry[]): HistoryEntry[] {
  return history.map((entry, at) => (at === history.length - 1 ? { ...entry, blameless: true } : entry));
}

/**
 * The versions that must not be applied again by themselves: that of the transaction, and the one that it began with. An update of
 * endpoints that was made for the generation that stands has its version, which stays good.
 */
function quarantinedWith(
  { quarantined }: NodeRecord,
  { version, began = version, from }: OpenRecord,
  because: string,
): Record<string, string> {
  const versions = [...new Set([began, version])].filter((one) => one !== from.version);
  return versions.reduce((all, one) => remember(all, one, because), { ...quarantined });
}

/** Whether a version ended so, for the same reason, as often since it was last taken that it counts as bad itself. */
function endsTooOften(history: readonly HistoryEntry[], bad: string, because: string): boolean {
  const since = history.findLastIndex(({ what, version }) => isTaken(what) && version === bad);
  const tries = history.slice(since + 1).filter((one) => one.version === bad && one.because === because).length;
  return tries >= limits.interruptedMax;
}

/** A release is confirmed; what only brings other endpoints is an update. */
const isTaken = (what: HistoryEntry['what']): boolean => what === 'confirmed' || what === 'updated';

/** How many releases ended within a span of time. What a clock that was set back calls later is not counted. */
export function releasesBetween(history: readonly HistoryEntry[], fromMs: number, toMs: number): number {
  return history.filter((entry) => {
    const atMs = Date.parse(entry.at);
    return (entry.what === 'confirmed' || isReleaseTakenBack(entry)) && atMs >= fromMs && atMs <= toMs;
  }).length;
}

/** Entries of an older `sluiced` do not tell endpoints apart. */
const isReleaseTakenBack = ({ what, lane }: HistoryEntry): boolean => what === 'rolled-back' && lane !== 'endpoints';

/**
 * When a release may be tried again, in milliseconds since 1970: from the third failure in a row on, each doubles the wait. 0 before: the
 * next version is likely to be the mend of a bad one, which is not tried again by itself anyway. Nobody waits
 * for one that a clock calls later which was set back since: that may be years.
 */
export function heldDownUntil({ failures, history }: NodeRecord, nowMs: number): number {
  const last = history.findLast((entry) => isReleaseTakenBack(entry) && entry.blameless !== true);
  const lastMs = last ? Date.parse(last.at) : 0;
  const beyond = failures - limits.failuresAtOnce;
  if (beyond <= 0 || !last || lastMs > nowMs) return 0;
  return lastMs + Math.min(limits.holdDownMs * 2 ** (beyond - 1), limits.holdDownMsMax);
}

/** The record of a node whose kernel holds nothing of Sluice any more; its history and what it knows of versions stay. */
export function forgotten(record: NodeRecord): NodeRecord {
  const { originalTimeouts: _, ...others } = record;
  return { ...others, current: null, kept: [], open: null, held: null, originals: {}, draining: [] };
}
