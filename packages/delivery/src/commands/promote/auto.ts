import type { WavesOpening } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import type { Promotion } from '../../fleet/promote.ts';

interface Unready {
  readonly kind: 'waiting' | 'blocked';
  readonly problems: readonly Problem[];
  readonly notBefore?: string;
}

/**
 * The decision for `--auto`: nothing is opened before its time, and nothing that was closed. Only the clock makes it differ.
 * @param after seconds since the youngest confirmation
 */
export function withPatience(decision: Promotion, { closings }: WavesOpening, after = 0): Promotion | Unready {
  const asNotes = (problems: readonly Problem[]): readonly Problem[] =>
    problems.map((problem) => ({ ...problem, level: 'note' }));
  if (decision.kind === 'all-open') return decision;
  if (decision.kind === 'not-ready' && decision.isBlocked) return { kind: 'blocked', problems: decision.problems };
  if (closings !== undefined) return { kind: 'blocked', problems: [wasClosed] };
  if (decision.kind === 'not-ready') return { kind: 'waiting', problems: asNotes(decision.problems) };
  const early = tooEarly(decision, after, Date.now());
  return early ? { kind: 'waiting', problems: [early.problem], notBefore: early.notBefore } : decision;
}

/**
 * Until when a wave stays closed that may open by its receipts.
 * @param nowMs the time of day
 * @returns the problem, and that time as `2026-12-01T12:15:00Z`; undefined: it may open now
 */
function tooEarly(
  { wave, open, youngest }: Extract<Promotion, { kind: 'open' }>,
  after: number,
  nowMs: number,
): { readonly problem: Problem; readonly notBefore: string } | undefined {
  if (!youngest) return undefined;
  const untilMs = Date.parse(youngest.at) + after * 1000;
  if (untilMs <= nowMs) return undefined;
  const notBefore = `${new Date(untilMs).toISOString().slice(0, 19)}Z`;
  const why = `${youngest.node} confirmed the release at ${youngest.at}, so wave ${open} (${wave.name}) waits until ${notBefore}`;
  const hint =
    'These are times of the clock of that node. Run the same command again then, or open the wave without --auto';
  return {
    problem: { code: 'WAVE_NOT_READY', level: 'note', message: `Cannot open the next wave yet: ${why}`, hint },
    notBefore,
  };
}

const wasClosed: Problem = {
  code: 'WAVE_NOT_READY',
  level: 'error',
  message:
    'Cannot open the next wave: waves of this release were closed by an operator, so --auto opens no more of them',
  hint: 'Open it with `sluice promote`, without --auto; or make a new release',
};
