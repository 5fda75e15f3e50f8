import { setTimeout as sleep } from 'node:timers/promises';
import { stateError } from '../../command-error.ts';
import { connectToDaemon } from '../../daemon/control/ask.ts';
import { noProbation } from '../../daemon/control/decisions.ts';
import { exitCodes } from '../../ports/outcome.ts';
import type { Decision } from '../../ports/operator.ts';
import { limits } from '../../limits.ts';
import { checkReadable, peek } from '../../state/peek.ts';
import type { HistoryEntry } from '../../state/record.ts';
import { controlStatus } from '../session/daemon-status.ts';
import { answer, type CommonOptions, loadConfig, type Terminal } from '../terminal/terminal.ts';

interface DecideOptions extends CommonOptions {
  /** The token of the probation that is meant; another one is refused. */
  readonly token?: string;
}

/** `sluiced confirm`, `sluiced cancel`, `sluiced extend`: sends a decision to the process that has a release on probation, and tells what comes of it. */
export async function decide(decision: Decision, options: DecideOptions, terminal: Terminal): Promise<number> {
  const { node, state } = loadConfig(options);
  if (options.token !== undefined && !/^[0-9a-f]{8}$/.test(options.token))
    throw stateError(
      `Cannot use --token ${JSON.stringify(options.token)}: it is not a token`,
      'A token has 8 hex digits; `sluiced status` shows it',
    );
  checkReadable(state);
  const control = await connectToDaemon(state);
  if (!control) throw noProbation(decision, node);
  const beganMs = Date.now();
  const { version, generation } = await control.decide({
    decision,
    ...(options.token === undefined ? {} : { token: options.token }),
  });
  const ending = await outcomeOf(decision, generation, state, beganMs);
  answer(options, terminal, {
    kind: 'Decision',
    fields: { node, version, generation, decision, ...ending },
    text: `${decision.kind}: ${describeEnding(ending, version, generation)}\n`,
  });
  return exitCodeOf(decision, ending);
}

/** What became of the release. `until`: of an extended probation. */
interface DecisionEnding {
  readonly outcome: HistoryEntry['what'] | 'on probation';
  readonly because: string | null;
  readonly until: string | null;
}

/** Waits for what the release comes to; an extended one stays on probation. */
async function outcomeOf(
  { kind }: Decision,
  generation: number,
  state: string,
  beganMs: number,
): Promise<DecisionEnding> {
  for (;;) {
    const running = await controlStatus(state);
    const { open, history } = running?.record ?? peek(state) ?? { open: null, history: [] };
    const ended = history.findLast(
      (entry) => entry.generation === generation && Date.parse(entry.at) >= beganMs && isEnding(entry),
    );
    if (ended && (open === null || open.to.number !== generation || ended.what !== 'confirmed'))
      return { outcome: ended.what, because: ended.because ?? null, until: null };
    const { progress = null, decision = null } = running?.probation ?? {};
    const isLate = Date.now() - beganMs > limits.orderWaitMs;
    if ((kind === 'extend' && progress && decision === null) || isLate || !running) {
      const bad = progress?.probes.filter(({ healthy }) => !healthy).map(({ name, seen }) => `probe ${name}: ${seen}`);
      const because = running ? (bad?.join('; ') ?? null) : 'the process that had it ended before it was decided';
      return { outcome: 'on probation', because: because === '' ? null : because, until: progress?.ends ?? null };
    }
    await sleep(limits.waitPollMs);
  }
}

const isEnding = ({ what }: HistoryEntry): boolean =>
  what === 'confirmed' || what === 'rolled-back' || what === 'held' || what === 'chosen';

function describeEnding({ outcome, because, until }: DecisionEnding, version: string, generation: number): string {
  const why = because === null ? '' : `: ${because}`;
  const what = `version ${version} (generation ${generation})`;
  if (outcome === 'confirmed') return `${what} is confirmed${why}`;
  if (outcome === 'rolled-back') return `${what} is rolled back${why}`;
  if (outcome === 'held') return `${what} cannot be rolled back, the node is halted${why}`;
  return `${what} is on probation${until === null ? '' : ` until ${until}`}${why}`;
}

/** What was asked for is done; a release that a probe rolled back instead of its confirmation is not. */
function exitCodeOf({ kind }: Decision, { outcome }: DecisionEnding): number {
  if (outcome === 'held') return exitCodes.halted;
  const wanted = { confirm: 'confirmed', cancel: 'rolled-back', extend: 'on probation' }[kind];
  if (outcome === wanted) return exitCodes.done;
  return outcome === 'rolled-back' ? exitCodes.rolledBack : exitCodes.different;
}
