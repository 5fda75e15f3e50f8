import { setTimeout as sleep } from 'node:timers/promises';
import type { SluicedConfig } from '../../config.ts';
import { reach } from '../../control/ask.ts';
import type { ControlStatus } from '../../control/protocol.ts';
import { limits } from '../../limits.ts';
import { describePartial, exitCodes } from '../../ports/outcome.ts';
import { controlStatus } from '../session/control-status.ts';
import { newestRelease } from './newest.ts';

/**
 * What `sluiced status --wait` waits for. `settled`: the directory was looked at since, and no change is in progress. `confirmed`: the
 * same, and the newest release is active. `healthy`: as `/healthz` says.
 */
export type Goal = 'confirmed' | 'healthy' | 'settled';

/** How a wait ended, in the document of `status -o json`. */
export interface WaitEnding {
  readonly goal: Goal;
  readonly isReached: boolean;
  /** Why not; null where it is reached. */
  readonly because: string | null;
  readonly exitCode: number;
}

/**
 * Waits for a goal, or for a fate of the release after which it cannot come by itself.
 * @param seconds how long at most; then the exit code is 1
 */
export async function waitFor(goal: Goal, seconds: number, config: Pick<SluicedConfig, 'state'>): Promise<WaitEnding> {
  const beganMs = Date.now();
  const endMs = performance.now() + seconds * 1000;
  let isAsked = false;
  for (;;) {
    const seen = await controlStatus(config.state);
    if (seen?.report && !isAsked) {
      await (await reach(config.state))?.look();
      isAsked = true;
    }
    const judged = judge(goal, seen, beganMs);
    if (typeof judged !== 'string') return judged;
    if (performance.now() >= endMs)
      return { goal, isReached: false, because: `not within ${seconds} s: ${judged}`, exitCode: exitCodes.different };
    await sleep(Math.min(limits.waitPollMs, Math.max(endMs - performance.now(), 1)));
  }
}

/** @param beganMs an earlier look at the directory does not count @returns why it is still waited for, in words */
export function judge(goal: Goal, seen: ControlStatus | undefined, beganMs: number): WaitEnding | string {
  const reached = { goal, isReached: true, because: null, exitCode: exitCodes.done };
  if (!seen?.report) return seen ? '`sluiced apply` is in progress' : 'no sluiced answers';
  const { report, record, probation } = seen;
  if (goal === 'healthy')
    return report.healthy ? reached : `the daemon is not healthy: ${Object.keys(report.alarms).join(', ')}`;
  if (record.held !== null) return { goal, isReached: false, because: record.held, exitCode: exitCodes.halted };
  if (probation) return `version ${probation.version} is on probation`;
  if (record.open !== null) return 'a change is in progress';
  if (report.looked === null || Date.parse(report.looked) < beganMs) return 'the bundle directory is being looked at';
  // It is being copied.
  if ('BUNDLE_INCOMPLETE' in report.alarms) return 'the bundle is not complete';
  const newest = newestRelease(record, false, report);
  if (goal === 'settled') return reached;
  const failed = (exitCode: number): WaitEnding => ({
    goal,
    isReached: false,
    because: newest?.because ?? null,
    exitCode,
  });
  const { partial } = record.current ?? {};
  if (newest?.fate === 'active')
    return partial ? { ...failed(exitCodes.different), because: describePartial(partial) } : reached;
  if (newest?.fate === 'refused') return failed(exitCodes.refused);
  // What is not to blame is tried again.
  if (newest?.fate === 'rolled back' && !record.history.at(-1)?.blameless) return failed(exitCodes.rolledBack);
  return newest?.because ?? 'no release was tried yet';
}

/** A line for the terminal. */
export const printEnding = ({ goal, isReached, because }: WaitEnding): string =>
  `${'waited'.padEnd(11)} ${isReached ? `until ${goal}` : `in vain for ${goal}: ${(because ?? '').replaceAll(/\s*\n\s*/g, ' ')}`}\n`;
