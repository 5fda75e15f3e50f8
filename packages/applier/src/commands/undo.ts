import { type Account, accountOf } from '../receipts/account.ts';
import { exitCodes } from '../rollout/outcome.ts';
import type { Generation } from '../rollout/ports.ts';
import { planWayBack } from '../transaction/way-back-plan.ts';
import { printWayBack } from './print-way-back.ts';
import { failedReceipt, witnessOf } from './receipts.ts';
import { openSession, type Session } from './session.ts';
import { type CommonOptions, CommandError, loadConfig, tell, type Terminal } from './terminal.ts';

const silent = (): void => undefined;
const byHand: Account = { outcome: 'chosen', because: 'a person chose the generation' };

export interface RollbackOptions extends CommonOptions {
  /** Which endpoints a Service comes back with; left out: the newest. */
  readonly endpoints?: 'newest' | 'old';
  /** Generation 0 may be the target: what was there before Sluice. */
  readonly removeAllServices?: boolean;
  /** Nobody is asked. */
  readonly yes?: boolean;
}

/**
 * `sluiced rollback [GENERATION|VERSION]`: says what changes, asks, and puts a generation back: the named one, or the one before the one
 * that stands; in a change that was interrupted or held, the one that stood before it. The newest endpoints stay unless told otherwise.
 * The version that is left is not applied again by itself. Exit code 1 when the answer is no.
 */
export async function rollback(
  wanted: string | undefined,
  options: RollbackOptions,
  terminal: Terminal,
): Promise<number> {
  const config = loadConfig(options);
  const session = await openSession(config, 'back', silent);
  const witness = witnessOf(config, () => session.journal, failedReceipt(terminal));
  try {
    await found(session);
    const old = await findTarget(session, wanted);
    if (old.number === 0 && !options.removeAllServices) throw removesAll();
    const { target, ...plan } = planWayBack(session.journal.standing, old, options.endpoints !== 'old');
    terminal.out(printWayBack({ target, ...plan }, confirmedAt(session, old)));
    if (!(await isAgreed(options, terminal))) {
      terminal.err('nothing was changed\n');
      return exitCodes.different;
    }
    const outcome = await session.keeper.backTo(target, false, old);
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

/** @throws CommandError where nobody can be asked */
async function isAgreed({ yes }: RollbackOptions, terminal: Terminal): Promise<boolean> {
  if (yes) return true;
  if (terminal.ask) return terminal.ask('Go back?');
  const message = 'Cannot go back without an answer: this is no terminal';
  throw new CommandError([
    { code: 'ANSWER_MISSING', level: 'error', message, hint: 'Read the lines above, and add --yes' },
  ]);
}

function removesAll(): CommandError {
  const message =
    'Cannot go back to generation 0: that takes the rules of every Service from this node, and brings back what was before Sluice';
  const hint = 'Name another generation (`sluiced history`), or add --remove-all-services';
  return new CommandError([{ code: 'NODE_STATE_INVALID', level: 'error', message, hint }]);
}

const confirmedAt = ({ journal }: Session, { number }: Generation): string | undefined =>
  journal.record.history.findLast(({ what, generation }) => what === 'confirmed' && generation === number)?.at;

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
  const number = wanted === undefined ? defaultTarget(journal) : numberOf(wanted, journal.record);
  const target = number === undefined ? undefined : await journal.generation(number);
  if (target) return target;
  const message =
    wanted === undefined
      ? 'Cannot go back: this node keeps no generation before the one that stands, other than what was there before Sluice'
      : `Cannot go back to ${wanted}: this node keeps no such generation`;
  const hint =
    '`sluiced history` lists what there was; `sluiced rollback 0 --remove-all-services` brings back what was before Sluice';
  throw new CommandError([{ code: 'NODE_STATE_INVALID', level: 'error', message, hint }]);
}

/** So much of a version names it, as the history prints it. */
const versionCharactersMin = 8;

/** @param wanted the number of a generation, or its version or how that begins */
function numberOf(wanted: string, { kept, current }: Session['journal']['record']): number | undefined {
  const all = [...kept, ...(current ? [current] : [])];
  const exact = all.find(({ version }) => version === wanted);
  if (exact) return exact.number;
  if (/^\d+$/.test(wanted) && wanted.length < versionCharactersMin) return Number(wanted);
  if (wanted.length < versionCharactersMin) return undefined;
  const begun = new Set(all.filter(({ version }) => version.startsWith(wanted)).map(({ number }) => number));
  return begun.size === 1 ? [...begun][0] : undefined;
}

/** The newest before the one that stands that nobody went back from; what was there before Sluice only where a change from there is open. */
function defaultTarget(journal: Session['journal']): number | undefined {
  const { record } = journal;
  if (record.open) return record.open.from.number;
  if (record.held !== null && record.current !== null && journal.standing) return record.current.number;
  const isGood = ({ number, version }: { readonly number: number; readonly version: string }): boolean =>
    number > 0 && number < (record.current?.number ?? 0) && !Object.hasOwn(record.quarantined, version);
  return record.kept.filter(isGood).at(-1)?.number;
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
