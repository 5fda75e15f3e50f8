import { limits } from '../../limits.ts';

/** What a look saw. */
export interface Heard {
  /**
   * away: no monitor runs, or not for long enough. behind: it is stopped, or has not read, or has lost, something that the kernel sent to it.
   * hears: neither is known.
   */
  readonly monitor: 'away' | 'behind' | 'hears';
  /** Whether the count of changes has moved since the last look that knew everything; undefined: nothing is counted. */
  readonly moved: boolean | undefined;
  /** Whether the monitor reported anything since then, also our own changes. */
  readonly hasReported: boolean;
  /** Whether a monitor has ever reported anything: an old version may not be able to. */
  readonly hasEverReported: boolean;
  /** For how long it has been behind or silent, in milliseconds. */
  readonly lateMs: number;
}

/**
 * complete: the monitor has reported every change until now, or there was none. late: a moment is left to the monitor. deaf: it hears
 * nothing, and there may be changes. moved: there were changes, and no monitor runs to report them. unknown: only a poll tells.
 */
type Hearing = 'complete' | 'late' | 'deaf' | 'moved' | 'unknown';

/** What follows from a look: a monitor is believed for as long as the kernel's own account of it gives no reason to doubt. */
export function judgeHearing({ monitor, moved, hasReported, hasEverReported, lateMs }: Heard): Hearing {
  if (monitor === 'away') return moved === undefined ? 'unknown' : moved ? 'moved' : 'complete';
  const isSilent = moved === true && !hasReported;
  if (monitor === 'behind' || isSilent) return lateMs < limits.hearLateMsMax ? 'late' : 'deaf';
  return moved === undefined && !hasEverReported ? 'unknown' : 'complete';
}
