import type { Config } from '../config.ts';
import { limits } from '../limits.ts';
import { describe, exitCodes, type Outcome } from '../rollout/outcome.ts';
import type { Generation } from '../rollout/ports.ts';
import { messageOf } from '../rollout/message.ts';
import { StateError } from '../store/state-error.ts';
import { patiently, type Time } from './patiently.ts';
import { openSession, type Session, type SessionMode } from './session.ts';
import { answer, type CommonOptions, linesOf, loadConfig, logSettings, tell, type Terminal } from './terminal.ts';

/** The node, as far as a boot needs it. */
export type BootNode = Pick<Session, 'reconciler' | 'journal'>;

/** Where a boot tells what it does. */
export interface BootTerminal extends Terminal {
  /** Hears which generation the kernel holds now. */
  inPlace?(generation: Generation): void;
  /** Takes what is no failure; left out, `err` does. */
  note?(text: string): void;
}

/** How long a boot may go on, from its start: TimeoutStartSec= of the unit ends it, whatever is in the kernel then. */
export interface BootTime {
  /** Aborts when nothing that fails is tried again. */
  readonly patience: AbortSignal;
  /** Aborts when no other generation is tried any more, apart from the first: without it the node has no rules. */
  readonly turns: AbortSignal;
  /** What waiting between tries goes by; the machine's own time when left out. */
  readonly waits?: Time;
}

/** Behind a wait for the lock of the state directory, and a tool that hangs at the last try of what was confirmed. */
export const turnsMs =
  limits.lockWaitSeconds * 1000 +
  limits.bootPatienceMs +
  limits.rollbackIntervalMs +
  limits.commandTimeoutMs +
  limits.commandKillDelayMs;

/**
 * `sluiced boot`: makes the kernel hold the last confirmed generation, its sysctls too, from what is on this disk alone. A generation
 * that cannot be read, or that this kernel does not take when it is asked again, where time allows that, is passed over for the one
 * before it; without a journal, the one that is known to have stood is taken. Neither a disk that takes no write nor a change that
 * cannot be finished keeps rules from a node.
 */
export async function boot(options: CommonOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  const placed: Generation[] = [];
  const exitCode = await bootWith(config, await told(config, options, terminal, (one) => placed.push(one)));
  answer(options, terminal, { kind: 'Boot', fields: fieldsOf(config.node, placed.at(-1), exitCode), text: '' });
  return exitCode;
}

const fieldsOf = (node: string, placed: Generation | undefined, exitCode: number): object => ({
  node,
  generation: placed?.number ?? null,
  version: placed?.version ?? null,
  isOlder: exitCode === exitCodes.rolledBack,
  isHalted: exitCode === exitCodes.halted,
});

async function bootWith(config: Config, terminal: BootTerminal): Promise<number> {
  const time = { patience: AbortSignal.timeout(limits.bootPatienceMs), turns: AbortSignal.timeout(turnsMs) };
  try {
    return await within(config, 'change', (node) => bootAsUsual(node, time, terminal));
  } catch (error) {
    if (!(error instanceof StateError) || error.code !== 'NODE_STATE_INVALID') throw error;
    return await within(config, 'frozen', (node) => bootFrozen(node, error, time, terminal));
  }
}

/** A unit runs it: what goes wrong on the way is in the log, with a priority. */
async function told(
  config: Config,
  options: CommonOptions,
  terminal: Terminal,
  inPlace: (generation: Generation) => void,
): Promise<BootTerminal> {
  const log = await terminal.openLog?.(logSettings(config));
  const out = linesOf(options, terminal);
  if (!log) return { ...terminal, out, inPlace };
  const err = (text: string): void => {
    const [message = '', ...hint] = text.trim().split(/\n\s*/);
    log.error(hint.length === 0 ? {} : { hint: hint.join(' ') }, message);
  };
  return { ...terminal, out, err, note: (text) => log.info({}, text.trim()), inPlace };
}

async function within(config: Config, mode: SessionMode, work: (node: BootNode) => Promise<number>): Promise<number> {
  const session = await openSession(config, mode, () => undefined);
  try {
    return await work(session);
  } finally {
    session.close();
  }
}

/** What the tries of one boot found out. */
interface Found {
  /** Whether the kernel held no rules before. */
  wasBare?: boolean | undefined;
  /** What became of what was left open. */
  left?: Outcome | undefined;
}

/** @returns the exit code */
export async function bootAsUsual(node: BootNode, time: BootTime, terminal: BootTerminal): Promise<number> {
  const { journal } = node;
  const isDamaged = journal.damaged !== undefined || journal.lost !== undefined;
  const found: Found = {};
  let steps: number | undefined;
  try {
    steps = await patiently(() => recoverAndSettle(node, found, time), time.waits);
  } catch (error) {
    // A disk that takes no write says nothing of the rules.
    if (error instanceof StateError) throw error;
    terminal.err(`${failed(journal)}: ${messageOf(error)}\n`);
  }
  if (journal.halted !== undefined || found.left?.kind === 'held') return bootHalted(node, found, time, terminal);
  if (found.left) note(`first: ${describe(found.left)}\n`, terminal);
  if (steps === undefined) return bootOtherwise(node, time, terminal);
  const { active } = journal;
  if (active) tellPlace(active, ` (${steps} steps)`, terminal);
  else terminal.out('no generation was confirmed yet: nothing to do\n');
  return active && isDamaged ? exitCodes.rolledBack : exitCodes.done;
}

function note(text: string, terminal: BootTerminal): void {
  if (terminal.note) terminal.note(text);
  else terminal.err(text);
}

function failed({ halted, open, record }: BootNode['journal']): string {
  if (halted !== undefined) return 'Cannot find out what stands';
  return open ? 'Cannot finish what was left open' : `Cannot load generation ${record.current?.number ?? 0}`;
}

/** @returns how many steps it took to put the confirmed generation in */
async function recoverAndSettle(
  { reconciler, journal }: BootNode,
  found: Found,
  { patience }: BootTime,
): Promise<number> {
  // What is left open may put rules in before the node is held. A look that fails must not keep rules from a node.
  if (journal.open) found.wasBare ??= await reconciler.isBare().catch(() => undefined);
  found.left ??= await reconciler.recover(patience);
  return found.left?.kind === 'held' ? 0 : Number(await reconciler.reconcile());
}

/**
 * A node that is held goes on with what its kernel holds, which after a boot is nothing: then what was confirmed is loaded. It stays
 * held, whatever is in place: only a person ends it.
 */
async function bootHalted(
  node: BootNode,
  { wasBare, left }: Found,
  time: BootTime,
  terminal: BootTerminal,
): Promise<number> {
  const { reconciler, journal } = node;
  if (wasBare ?? (await soon(() => reconciler.isBare(), time).catch(() => false))) await loadAny(node, time, terminal);
  const held = { kind: 'held', because: journal.halted ?? '', rollback: 'not tried again' } as const;
  return tell(left?.kind === 'held' ? left : held, terminal);
}

/** What can be done where nothing can be written: the confirmed generation, or one before it, and nothing of what was left open. */
export async function bootFrozen(
  node: BootNode,
  because: StateError,
  time: BootTime,
  terminal: BootTerminal,
): Promise<number> {
  const { reconciler, journal } = node;
  const isHalted = journal.halted !== undefined;
  const wasBare = isHalted && (await soon(() => reconciler.isBare(), time));
  if (isHalted ? !wasBare : !journal.active) throw because;
  terminal.err(`${because.message}\n    ${because.hint}\n`);
  if (isHalted) return bootHalted(node, { wasBare }, time, terminal);
  if (!(await loadAny(node, time, terminal))) return noneLoaded(terminal);
  terminal.out('nothing new is taken\n');
  return exitCodes.rolledBack;
}

/**
 * Where the confirmed generation could not be put in as usual, one before it stands from then on. A change that cannot be finished stays
 * open instead, and one before it stands in: the next process finishes it, and nobody said anything against its release.
 */
async function bootOtherwise(node: BootNode, time: BootTime, terminal: BootTerminal): Promise<number> {
  const { reconciler, journal } = node;
  const instead = ` instead of ${journal.record.current?.number ?? 0}`;
  const standsIn = async (target: Generation): Promise<boolean> => {
    // A disk that takes no write keeps no rules from a node.
    if (target !== journal.active) await journal.standsIn(target).catch(() => undefined);
    return isIn(node, target, terminal);
  };
  const stands = async (target: Generation): Promise<boolean> => {
    const outcome = await reconciler.rollBackTo(target, { isLastResort: true });
    if (outcome.kind !== 'confirmed') return false;
    tellPlace(target, instead, terminal);
    return true;
  };
  const isOpen = journal.open !== undefined;
  if (!isOpen) note('    One before it is tried\n', terminal);
  const isDone = isOpen
    ? await inTurn(unfinished(journal, time), time, standsIn)
    : await inTurn(before(journal), time, stands);
  return isDone ? exitCodes.rolledBack : noneLoaded(terminal);
}

/** The generation before comes first where a tool took so long that time may be left for one only. */
async function* unfinished(journal: BootNode['journal'], { patience }: BootTime): AsyncGenerator<Generation> {
  const { active } = journal;
  const isLate = patience.aborted;
  if (active && !isLate) yield active;
  yield* before(journal);
  if (active && isLate) yield active;
}

function noneLoaded(terminal: BootTerminal): number {
  terminal.err('No older generation can be loaded: a person must look\n');
  return exitCodes.halted;
}

/**
 * Loads what stood, or else the newest generation before it that this kernel takes. Nothing is written down. Where it is not known what
 * stood, or that cannot be read, what comes in its place is tried again, too.
 */
async function loadAny(node: BootNode, time: BootTime, terminal: BootTerminal): Promise<boolean> {
  const { active } = node.journal;
  if (active && (await isIn(node, active, terminal, time))) return true;
  return inTurn(before(node.journal), time, async (target) => isIn(node, target, terminal, active ? undefined : time));
}

/** Tries one after the other; the first always, however late it is: it may fit into the time that is left, and a bare node loses nothing. */
async function inTurn(
  targets: AsyncIterable<Generation>,
  { turns }: BootTime,
  work: (target: Generation) => Promise<boolean>,
): Promise<boolean> {
  let isFirst = true;
  for await (const target of targets) {
    if (turns.aborted && !isFirst) return false;
    if (await work(target)) return true;
    isFirst = false;
  }
  return false;
}

/** @param time given, it is tried again as long as there is some */
async function isIn(
  { reconciler }: BootNode,
  target: Generation,
  terminal: BootTerminal,
  time?: BootTime,
): Promise<boolean> {
  const work = async (): Promise<void> => reconciler.load(target);
  try {
    await (time ? soon(work, time) : work());
  } catch (error) {
    terminal.err(`Cannot load generation ${target.number}: ${messageOf(error)}\n`);
    return false;
  }
  tellPlace(target, '', terminal);
  return true;
}

async function soon<T>(work: () => Promise<T>, { patience, waits }: BootTime): Promise<T> {
  return patience.aborted ? work() : patiently(work, waits);
}

/**
 * What may come in the place of the generation that stands, the newest first; of a journal that is lost, what is known to have stood.
 * What was there before Sluice is not: it is no set of Service rules.
 */
async function* before(journal: BootNode['journal']): AsyncGenerator<Generation> {
  if (journal.lost !== undefined) {
    for (const { wasActive, generation } of journal.storedGenerations()) {
      // The others are many, and large.
      if (!wasActive) break;
      yield generation;
    }
  }
  for (let number = (journal.record.current?.number ?? 0) - 1; number > 0; number--) {
    const generation = await journal.generation(number);
    if (generation) yield generation;
  }
}

function tellPlace(generation: Generation, more: string, terminal: BootTerminal): void {
  const { number, version } = generation;
  terminal.inPlace?.(generation);
  terminal.out(`generation ${number} (version ${version}) is in place${more}\n`);
}
