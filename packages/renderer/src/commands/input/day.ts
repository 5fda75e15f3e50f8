import { type Problem, refusal } from '@sluice/netfilter';
import { isDate } from '../../load/schema/formats.ts';
import { Stopped } from '../failure/failure.ts';

/**
 * The day for checking the expiry of waivers. The only place in the review that reads the clock.
 * @throws Stopped when the option is not a valid date
 */
export function dayOf(text: string | undefined): string {
  const day = text ?? new Date().toISOString().slice(0, 10);
  if (isDate(day)) return day;
  const problem: Problem = refusal(
    'INPUT_UNREADABLE',
    `Cannot use --today ${JSON.stringify(day)}: it is not a valid date`,
    'Write it like 2026-12-31',
  );
  throw new Stopped(problem);
}
