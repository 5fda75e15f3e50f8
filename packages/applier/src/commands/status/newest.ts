import { isProblemAlarm } from '../../observe/status/alarms.ts';
import type { HistoryEntry, NodeRecord } from '../../state/record.ts';
import type { StatusReport } from '../../observe/status/status.ts';

/** The newest release that this node knows, and what became of it. */
export interface NewestRelease {
  /** Null where a bundle was refused before it had a version. */
  readonly version: string | null;
  /** The generation that it is, was or becomes; null where it got none. */
  readonly generation: number | null;
  readonly fate: 'active' | 'in progress' | 'on probation' | 'rolled back' | 'refused' | 'waits' | 'halted';
  /** Why, where it is not active. */
  readonly because: string | null;
  /** Since when, RFC 3339; null where that is not known. */
  readonly at: string | null;
}

/**
 * @param record of the journal
 * @param onProbation whether the open change is a release on probation
 * @param report the daemon's report; null where none answers
 * @returns null on a node that never had a release
 */
export function newestRelease(
  record: Pick<NodeRecord, 'open' | 'held' | 'history' | 'current'>,
  onProbation: boolean,
  report: Partial<Pick<StatusReport, 'waits' | 'alarms'>> | null,
): NewestRelease | null {
  const { open, held, history, current } = record;
  if (open?.lane === 'release') {
    const about = { version: open.version, generation: open.to.number, at: open.at };
    if (held !== null) return { ...about, fate: 'halted', because: held };
    return { ...about, fate: onProbation ? 'on probation' : 'in progress', because: null };
  }
  const raised = Object.entries(report?.alarms ?? {});
  const waits = raised.find(([code]) => code === 'REMOVAL_HELD' || code === 'RELEASE_DELAYED');
  const last = history.findLast(isOfRelease);
  // That it is not tried again is the fate of the one that was rolled back.
  const isOfLast = (code: string, why: string): boolean =>
    code === 'BUNDLE_QUARANTINED' && last?.what === 'rolled-back' && why.includes(last.version);
  const refused = raised.find(([code, why]) => isProblemAlarm(code) && !isOfLast(code, why));
  if (waits || refused) {
    const [code, why] = waits ?? refused ?? ['', ''];
    return { ...unnamed, fate: waits ? 'waits' : 'refused', because: `${why} [${code}]` };
  }
  if (report?.waits)
    return { ...unnamed, fate: 'waits', because: `for wave ${report.waits.wave} (${report.waits.name}) to open` };
  if (last?.what === 'rolled-back') return endedAs(last, 'rolled back', last.because ?? null);
  if (last?.what === 'held') return endedAs(last, 'halted', last.because ?? null);
  if (last?.what === 'chosen' || last?.what === 'fell-back') {
    const left = history.findLast(({ what }) => what === 'confirmed');
    const why = last.because ?? `an operator rolled back to generation ${last.generation}`;
    if (left && left.generation !== last.generation) return endedAs({ ...left, at: last.at }, 'rolled back', why);
  }
  if (current === null || current.number === 0) return null;
  const at = history.findLast(({ generation }) => generation === current.number)?.at ?? null;
  return { version: current.version, generation: current.number, fate: 'active', because: null, at };
}

const unnamed = { version: null, generation: null, at: null } as const;

const isOfRelease = ({ what, lane }: HistoryEntry): boolean => what !== 'updated' && lane !== 'endpoints';

const endedAs = (
  { version, generation, at }: HistoryEntry,
  fate: NewestRelease['fate'],
  because: string | null,
): NewestRelease => ({ version, generation, fate, because, at });
