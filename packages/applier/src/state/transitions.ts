import type { IpvsTimeouts } from '@sluice/netfilter';
import { limits } from '../limits.ts';
import type { Fault, Generation, QuarantinedService, TransactionIntent } from '../ports/journal.ts';
import {
  findGeneration,
  type GenerationRecord,
  type NodeRecord,
  type OpenRecord,
  type HistoryEntry,
} from './record.ts';
import { StateError } from './state-error.ts';

/** Every change of the record: from the record before to the one after. `at` is the time of day, for the history. */

/** The state before Sluice was stored. */
export function adopted(record: NodeRecord, current: GenerationRecord, at: string): NodeRecord {
  const history = historyWith(record, at, { what: 'first-run', generation: current.number, version: current.version });
  return { ...record, current, kept: [current], history };
}

/**
 * The rules are in a rule store.
 * @throws StateError when there are rules in the other one
 */
export function pinned(record: NodeRecord, backend: NonNullable<NodeRecord['backend']>): NodeRecord {
  if (record.current === null || record.backend === undefined) return { ...record, backend };
  const hint = `Set \`backend: ${record.backend}\` in sluiced.yaml, or move the rules with \`sluiced backend ${backend}\``;
  const why = `the node's rules are in the ${record.backend} store, not in ${backend}`;
  throw new StateError('NODE_STATE_INVALID', why, hint);
}

/** The intent of a transaction, as the record writes it. */
type OpenIntent = Pick<TransactionIntent, 'changeKind' | 'flip' | 'version' | 'sysctls'> &
  Pick<OpenRecord, 'from' | 'to' | 'flows'>;

/** A transaction begins; the first one remembers the values from before Sluice. */
export function opened(
  record: NodeRecord,
  { changeKind, flip, version, to, from, sysctls, flows }: OpenIntent,
  timeouts: IpvsTimeouts | undefined,
  at: string,
): NodeRecord {
  const before = Object.fromEntries(sysctls);
  const { originals, originalTimeouts = timeouts } = record;
  return {
    ...record,
    open: { phase: 'open', lane: changeKind, flip, version, to, from, sysctls: before, flows, at, recoveries: 0 },
    originals: { ...before, ...originals },
    ...(originalTimeouts ? { originalTimeouts } : {}),
  };
}

/** Newer endpoints for both programs of the open transaction are about to be written to the kernel. */
export function offered(record: NodeRecord, open: OpenRecord, update: OpenRecord['update']): NodeRecord {
  return { ...record, open: { ...open, update } };
}

/**
 * An older generation is about to be loaded while the transaction stays open: the next process has to know that the kernel may hold its
 * chains. Recorded like an update in progress; one that is in progress already stays.
 * @returns undefined where nothing has to be recorded
 */
export function standingIn(record: NodeRecord, number: number, revision: number): NodeRecord | undefined {
  const { open } = record;
  const from = findGeneration(record, number, revision);
  if (!open || !from || (open.update && open.update.to.revision !== open.to.revision)) return undefined;
  const { to, version, flows } = open;
  return offered(record, open, { from, to, version, flows });
}

/** The kernel holds `open.update` in both programs. */
export function accepted(record: NodeRecord, at: string): NodeRecord {
  const { open, history } = record;
  if (!open?.update) throw new Error('nothing was offered');
  const { update, began = open.version, ...rest } = open;
  const { from, to, version, flows } = update;
  return {
    ...record,
    current: from,
    kept: keptWith(record, from),
    open: { ...rest, from, to, version, flows, began },
    history: from.revision === open.from.revision ? history : updated(history, from, at),
  };
}

/** The new generation is active. An update is finished with that: its old endpoints left the kernel with it. */
export function committed(record: NodeRecord, open: OpenRecord, note: string | undefined, at: string): NodeRecord {
  const { to, version, lane } = open;
  const after = {
    ...record,
    current: to,
    kept: keptWith(record, to),
    next: Math.max(record.next, to.number + 1),
    quarantined: without(without(record.quarantined, version), to.partial?.of ?? version),
  };
  if (lane === 'endpoints') return { ...after, open: null, history: updated(record.history, to, at) };
  const because = note === undefined ? {} : { because: note };
  const lacks = to.partial ? { without: to.partial.services } : {};
  const history = historyWith(record, at, {
    what: 'confirmed',
    generation: to.number,
    version,
    ...because,
    ...lacks,
  });
  return { ...after, open: { ...open, phase: 'committed', recoveries: 0 }, failures: 0, history };
}

/**
 * The open transaction was rolled back. A version that is bad, or crashes too often, is quarantined; only failed releases make later ones
 * wait.
 */
export function abandoned(before: NodeRecord, open: OpenRecord, because: string, fault: Fault, at: string): NodeRecord {
  const { to, version, lane } = open;
  const ofLane = lane === 'endpoints' ? { lane } : {};
  const ending = { what: 'rolled-back', generation: to.number, version, because, ...ofLane } as const;
  const known = fault === 'surroundings' ? withoutRow(before.history, ending) : before.history;
  const record = { ...before, open: null, held: null, history: historyWith({ history: known }, at, ending) };
  const isBad = fault === 'bundle' || (fault === 'process' && endsTooOften(record.history, version, because));
  if (!isBad) return { ...record, history: withoutBlame(record.history) };
  const failures = record.failures + (lane === 'release' ? 1 : 0);
  // Another release gets another number: who reads of a generation must know which release that was.
  const next = Math.max(record.next, to.number + 1);
  return { ...record, next, failures, quarantined: quarantinedWith(record, open, because) };
}

/** So many processes have tried to recover the open transaction. */
export const recovering = (record: NodeRecord, recoveries: number): NodeRecord =>
  record.open ? { ...record, open: { ...record.open, recoveries } } : record;

export const partialOf = (partial: Generation['partial']): Pick<Generation, 'partial'> => (partial ? { partial } : {});

/** The node is halted; the transaction stays open. */
export function halted(record: NodeRecord, because: string, at: string): NodeRecord {
  const { open, current } = record;
  const generation = open?.to.number ?? current?.number ?? 0;
  const history = historyWith(record, at, { what: 'held', generation, version: open?.version ?? '', because });
  return { ...record, held: shortened(because), history };
}

/** What identifies a generation for operators. */
type Target = Pick<GenerationRecord, 'number' | 'version'>;

/** A manual rollback to a generation, which is active from now on. */
export function chosen(record: NodeRecord, { number, version }: Target, at: string): NodeRecord {
  const { open, current } = record;
  // The open change may be this very rollback, announced before it was done.
  // Generation 0 is the state before Sluice: no bundle has its version.
  const active = current?.number === 0 ? undefined : current?.version;
  const whole = current?.partial?.of;
  const versions = [open?.began, open?.version, whole, active].filter((one) => one !== undefined);
  const left = new Set(versions.filter((one) => one !== version));
  const because = `rolled back manually to generation ${number}`;
  const others = without(record.quarantined, version);
  const quarantined = [...left].reduce((all, one) => remember(all, one, because), others);
  const history = historyWith(record, at, { what: 'chosen', generation: number, version });
  return { ...record, open: null, held: null, quarantined, history };
}

/** A generation is active instead of one that cannot be read, or whose record is lost. */
export function fellBack(record: NodeRecord, { number, version }: Target, because: string, at: string): NodeRecord {
  const history = historyWith(record, at, { what: 'fell-back', generation: number, version, because });
  return { ...record, open: null, history };
}

/** A generation is stored elsewhere, perhaps as an older revision: what it was stored as cannot be read. */
export function storedElsewhere(record: NodeRecord, damaged: GenerationRecord, by: GenerationRecord): NodeRecord {
  const now = (one: GenerationRecord): GenerationRecord => (one.manifest === damaged.manifest ? by : one);
  const { kept, current, open } = record;
  return {
    ...record,
    kept: kept.map(now),
    current: current && now(current),
    open: open && { ...open, from: now(open.from), to: now(open.to) },
  };
}

/** The rules of Sluice were removed; history and quarantined versions stay. */
export function forgotten(record: NodeRecord, at: string): NodeRecord {
  const { originalTimeouts: _, adoption: _adoption, ...others } = record;
  const { number = 0, version = '' } = record.current ?? {};
  const history = historyWith(record, at, { what: 'cleaned-up', generation: number, version });
  return { ...others, current: null, kept: [], open: null, held: null, originals: {}, draining: [], history };
}

/** The rules of a replaced kube-proxy were stored as a further revision of generation 0. */
export function withReplaced(record: NodeRecord, replaced: GenerationRecord): NodeRecord {
  const { adoption } = record;
  if (!adoption) throw new Error('no adoption has begun');
  return { ...record, kept: keptWith(record, replaced), adoption: { ...adoption, isStored: true } };
}

/** The record with these quarantined versions of Services: the newest of them. */
export function withQuarantined(record: NodeRecord, services: readonly QuarantinedService[]): NodeRecord {
  const { quarantinedServices: _, ...others } = record;
  if (services.length === 0) return others;
  const newest = services.slice(-limits.quarantinedServicesMax);
  const quarantinedServices = newest.map((one) => ({ ...one, because: shortened(one.because) }));
  return { ...others, quarantinedServices };
}

/** The quarantine of a version, or of all versions of a Service, is lifted. @returns undefined where there is none */
export function lifted(record: NodeRecord, quarantined: string): NodeRecord | undefined {
  const services = record.quarantinedServices ?? [];
  const left = services.filter(({ service }) => service !== quarantined);
  const isVersion = Object.hasOwn(record.quarantined, quarantined);
  if (!isVersion && left.length === services.length) return undefined;
  return withQuarantined({ ...record, quarantined: without(record.quarantined, quarantined) }, left);
}

/** The kept generations with one more: the newest, and the first, as the state before Sluice remains a target of rollbacks. */
function keptWith({ kept }: NodeRecord, one: GenerationRecord): GenerationRecord[] {
  const all = [...kept.filter(({ number }) => number !== one.number), one];
  const [first, ...others] = all.toSorted((a, b) => a.number - b.number);
  return first ? [first, ...others.slice(-limits.generationsKept)] : [];
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

function remember(
  quarantined: Readonly<Record<string, string>>,
  version: string,
  because: string,
): Record<string, string> {
  const entries = [...Object.entries(without(quarantined, version)), [version, shortened(because)] as const];
  return Object.fromEntries(entries.slice(-limits.quarantinedMax));
}

function without(quarantined: Readonly<Record<string, string>>, version: string): Record<string, string> {
  return Object.fromEntries(Object.entries(quarantined).filter(([one]) => one !== version));
}

/** The history of a record: what is written to it, and what is decided by it. */

/** The history with one more entry. */
function historyWith(
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

/**
 * The history without its last entry if that is the same, but for its time: what fails for its surroundings is tried again until these are
 * well, and one entry represents all tries.
 */
function withoutRow(history: readonly HistoryEntry[], entry: Omit<HistoryEntry, 'at'>): HistoryEntry[] {
  const last = history.at(-1);
  const { what, version, because = '' } = entry;
  const isSame = last?.what === what && last.version === version && last.because === shortened(because);
  return isSame ? history.slice(0, -1) : [...history];
}

/** Marks the last entry: its version is not to blame. */
function withoutBlame(history: readonly HistoryEntry[]): HistoryEntry[] {
  return history.map((entry, at) => (at === history.length - 1 ? { ...entry, blameless: true } : entry));
}

export function shortened(text: string): string {
  return text.length > limits.reasonCharactersMax ? `${text.slice(0, limits.reasonCharactersMax)}…` : text;
}

/** Whether a version failed for the same reason so often since it was last accepted that it counts as bad. */
function endsTooOften(history: readonly HistoryEntry[], bad: string, because: string): boolean {
  const since = history.findLastIndex(({ what, version }) => isTaken(what) && version === bad);
  const tries = history.slice(since + 1).filter((one) => one.version === bad && one.because === because).length;
  return tries >= limits.interruptedMax;
}

/** A release was confirmed, or an endpoint update applied. */
const isTaken = (what: HistoryEntry['what']): boolean => what === 'confirmed' || what === 'updated';

/**
 * The number of releases that were to blame for their rollback, within a time span: a tool that was away, or a stop, says nothing of the
 * next one. Entries later than now, after the clock was set back, are not counted.
 */
export function failuresBetween(history: readonly HistoryEntry[], fromMs: number, toMs: number): number {
  return history.filter((entry) => {
    const atMs = Date.parse(entry.at);
    return hasFailed(entry) && atMs >= fromMs && atMs <= toMs;
  }).length;
}

/** Entries of an older `sluiced` do not tell endpoint updates from releases. */
const isReleaseTakenBack = ({ what, lane }: HistoryEntry): boolean => what === 'rolled-back' && lane !== 'endpoints';

/** A release was rolled back, and is to blame. */
const hasFailed = (entry: HistoryEntry): boolean => isReleaseTakenBack(entry) && entry.blameless !== true;

/**
 * When a release may be tried again, in milliseconds since 1970; 0: now. The back-off begins with the third failure in a row and doubles
 * with each: the next version is likely to fix a bad one, which is quarantined anyway. A failure later than now, after the clock was set
 * back, is ignored: waiting for it could take years.
 */
export function backOffUntil({ failures, history }: NodeRecord, nowMs: number): number {
  const last = history.findLast(hasFailed);
  const lastMs = last ? Date.parse(last.at) : 0;
  const beyond = failures - limits.failuresAtOnce;
  if (beyond <= 0 || !last || lastMs > nowMs) return 0;
  return lastMs + Math.min(limits.backOffMs * 2 ** (beyond - 1), limits.backOffMsMax);
}
