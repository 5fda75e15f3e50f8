import { type Account, accountOf } from '../receipts/account.ts';
import { exitCodes } from '../rollout/outcome.ts';
import type { Generation } from '../rollout/ports.ts';
import { failedReceipt, witnessOf } from './receipts.ts';
import { openSession, type Session } from './session.ts';
import { type CommonOptions, CommandError, loadConfig, tell, type Terminal } from './terminal.ts';

const silent = (): void => undefined;
const byHand: Account = { outcome: 'chosen', because: 'a person chose the generation' };

/**
 * `sluiced rollback [N]`: puts generation N back, or the one before the one that stands; in a change that was interrupted or held,
 * the one that stood before it. The version that is left is not applied again by itself.
 */
export async function rollback(
  wanted: string | undefined,
  options: CommonOptions,
  terminal: Terminal,
): Promise<number> {
  const config = loadConfig(options);
  const session = await openSession(config, 'back', silent);
  const witness = witnessOf(config, () => session.journal, failedReceipt(terminal));
  try {
    await found(session);
    const target = await findTarget(session, wanted);
    const outcome = await session.keeper.backTo(target);
    await witness.tell(outcome.kind === 'held' ? accountOf(outcome) : byHand, undefined);
    if (outcome.kind === 'held') return tell(outcome, terminal);
    terminal.out(`generation ${target.number} (version ${target.version}) is in place\n`);
    if (outcome.kind === 'confirmed' && outcome.unwritten !== undefined)
      terminal.err(unwritten(target, outcome.unwritten));
    return exitCodes.done;
  } finally {
    session.close();
  }
}

const unwritten = ({ number }: Generation, why: string): string =>
  `warning: this is not written down: ${why}. The next start of sluiced, and the next boot, go by what the journal says. Keep sluiced stopped until the disk takes writes, then run \`sluiced rollback ${number}\` again\n`;

/**
 * Of a journal that is lost, finds out what stands, as the daemon does.
 * @throws CommandError when nobody can tell: then nobody can take it away either
 */
async function found({ keeper, journal }: Session): Promise<void> {
  if (journal.lost !== undefined) await keeper.recover();
  const { lost } = journal;
  if (lost === undefined) return;
  const hint = 'docs/runbooks/held.md says how to find out by hand which rules are whose';
  throw new CommandError([{ code: 'NODE_STATE_INVALID', level: 'error', message: `Cannot go on: ${lost}`, hint }]);
}

/**
 * Which rules a generation made is known from the generation alone.
 * @throws CommandError when the one that stands cannot be read
 */
function mustBeReadable({ journal }: Session): void {
  const { current } = journal.record;
  if (current === null || journal.standing) return;
  const message = `Cannot clean up: generation ${current.number} cannot be read, so nobody knows which rules are Sluice's`;
  const hint = 'Put another generation in with `sluiced rollback`, and clean up then';
  throw new CommandError([{ code: 'NODE_STATE_INVALID', level: 'error', message, hint }]);
}

async function findTarget({ journal }: Session, wanted: string | undefined): Promise<Generation> {
  const number = wanted === undefined ? defaultTarget(journal) : /^\d+$/.test(wanted) ? Number(wanted) : undefined;
  const target = number === undefined ? undefined : await journal.generation(number);
  if (target) return target;
  const message =
    wanted === undefined
      ? 'Cannot go back: this node keeps no generation before the one that stands'
      : `Cannot go back to generation ${wanted}: this node does not keep it`;
  throw new CommandError([
    { code: 'NODE_STATE_INVALID', level: 'error', message, hint: '`sluiced history` lists what there was' },
  ]);
}

function defaultTarget(journal: Session['journal']): number | undefined {
  const { record } = journal;
  if (record.open) return record.open.from.number;
  if (record.held !== null && record.current !== null && journal.standing) return record.current.number;
  const confirmed = record.history.filter(
    ({ what }) => what === 'confirmed' || what === 'chosen' || what === 'fell-back' || what === 'first-run',
  );
  return confirmed.findLast(({ generation }) => generation !== record.current?.number)?.generation;
}

/** `sluiced cleanup`: takes every rule of Sluice out of the kernel; sysctls get their old values back. */
export async function cleanup(options: CommonOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  const session = await openSession(config, 'back', silent);
  try {
    await found(session);
    mustBeReadable(session);
    const steps = await session.keeper.cleanup();
    const witness = witnessOf(config, () => session.journal, failedReceipt(terminal));
    await witness.tell({ outcome: 'removed', because: 'a person cleaned up' }, undefined);
    terminal.out(
      steps === 0
        ? 'nothing of Sluice was in the kernel\n'
        : `removed everything of Sluice from the kernel (${steps} steps)\n`,
    );
    return exitCodes.done;
  } finally {
    session.close();
  }
}
