import type { WavesOpening } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import type { Promotion } from '../../fleet/promote.ts';

/** Why `--auto` opens nothing now: it is too early, or an operator must look. */
export interface Unready {
  readonly kind: 'waiting' | 'blocked';
  readonly problems: readonly Problem[];
  /** When the wave may open, as `2026-12-01T12:15:00Z`. */
  readonly notBefore?: string;
}

/**
 * The decision for `--auto`: nothing is opened before its time, and nothing that was closed. Only the clock makes it differ.
 * @param after seconds since the youngest confirmation
 */
export function withPatience(decision: Promotion, { closings }: WavesOpening, after = 0): Promotion | Unready {
  if (decision.kind === 'all-open') return decision;
  if (decision.kind === 'not-ready' && decision.isBlocked) return { kind: 'blocked', problems: decision.problems };
  if (closings !== undefined) return { kind: 'blocked', problems: [wasClosed] };
  if (decision.kind === 'not-ready')
    return { kind: 'waiting', problems: decision.problems.map((problem) => ({ ...problem, level: 'note' })) };
  const { wave, open, youngest } = decision;
  const untilMs = youngest === undefined ? 0 : Date.parse(youngest.at) + after * 1000;
  if (youngest === undefined || untilMs <= Date.now()) return decision;
  const notBefore = `${new Date(untilMs).toISOString().slice(0, 19)}Z`;
  const message = `Cannot open the next wave yet: ${youngest.node} confirmed the release at ${youngest.at}, so wave ${open} (${wave.name}) waits until ${notBefore}`;
  const hint = 'These are times of the clock of that node. Run the same command again, or open the wave without --auto';
  return { kind: 'waiting', problems: [{ code: 'WAVE_NOT_READY', level: 'note', message, hint }], notBefore };
}

const wasClosed: Problem = {
  code: 'WAVE_NOT_READY',
  level: 'error',
  message:
    'Cannot open the next wave: waves of this release were closed by an operator, so --auto opens no more of them',
  hint: 'Open it with `sluice promote`, without --auto; or make a new release',
};
