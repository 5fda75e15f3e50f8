import { setTimeout } from 'node:timers/promises';
import { printProblem } from '@sluice/netfilter';
import { commandError } from '../../command-error.ts';
import type { SluicedConfig } from '../../config.ts';
import { descend } from '../../inbox/descend.ts';
import { InboxError, trustOf } from '../../inbox/trust.ts';
import { limits } from '../../limits.ts';
import { messageOf } from '../../message.ts';
import type { Generation } from '../../ports/journal.ts';
import { describe, exitCodes, type Outcome } from '../../ports/outcome.ts';
import { StateError } from '../../state/state-error.ts';
import { type NodeSession, openSession, type SessionMode } from '../session/session.ts';
import {
  answer,
  type CommonOptions,
  linesOf,
  loadConfig,
  logSettings,
  printOutcome,
  type Terminal,
} from '../terminal/terminal.ts';

/** The parts of a session that a boot uses. */
export type BootNode = Pick<NodeSession, 'reconciler' | 'journal'>;

/** The output of a boot. */
interface BootTerminal extends Terminal {
  /** Called with each generation that is in the kernel now. */
  loaded?(generation: Generation): void;
  /** Prints what is not a failure; default: `err`. */
  note?(text: string): void;
}

/** Deadlines of a boot, from its start: TimeoutStartSec= of the unit kills it, whatever is in the kernel then. */
export interface BootTime {
  /** Aborts when failures are not retried any more. */
  readonly patience: AbortSignal;
  /** Aborts when no further generation is tried, except the first: without one the node has no rules. */
  readonly fallbacks: AbortSignal;
  /** The clock for pauses between tries; default: the machine's. */
  readonly waits?: Time;
}

/** Includes a wait for the lock of the state directory, and a tool that hangs at the last try of the confirmed generation. */
export const fallbacksMs =
  limits.lockWaitSeconds * 1000 +
  limits.bootPatienceMs +
  limits.rollbackIntervalMs +
  limits.commandTimeoutMs +
  limits.commandKillDelayMs;

/**
 * `sluiced boot`: loads the last confirmed generation, with its sysctls, from this disk alone. A generation that cannot be read, or that
 * the kernel refuses in all retries that time allows, is replaced by the one before it; without a journal, the one known to have been
 * active is loaded. A disk that takes no write, or a change that cannot be finished, does not leave the node without rules.
 */
export async function boot(options: CommonOptions, terminal: Terminal): Promise<number> {
  const config = bootConfig(options, terminal);
  const placed: Generation[] = [];
  const exitCode = await bootWith(config, await bootTerminal(config, options, terminal, (one) => placed.push(one)));
  answer(options, terminal, { kind: 'Boot', fields: fieldsOf(config.node, placed.at(-1), exitCode), text: '' });
  return exitCode;
}

/**
 * A node without rules would be worse than one whose config others can write, as long as these cannot write the rules.
 * @throws CommandError for a config that cannot be used, or one that others can write with a state directory that they can write
 */
export function bootConfig(options: CommonOptions, terminal: Terminal): SluicedConfig {
  let isTrusted = true;
  const config = loadConfig(options, (problem) => {
    isTrusted = false;
    terminal.err(`${printProblem({ ...problem, level: 'warning' })}\n`);
  });
  try {
    if (!isTrusted)
      descend(config.state, { ...trustOf(undefined), subject: `the state directory ${config.state}` })[
        Symbol.dispose
      ]();
    return config;
  } catch (error) {
    // Nothing was ever confirmed there.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return config;
    if (!(error instanceof InboxError)) throw error;
    const { message, hint } = error;
    throw commandError('NODE_CONFIG_UNTRUSTED', message, hint);
  }
}

const fieldsOf = (node: string, placed: Generation | undefined, exitCode: number): object => ({
  node,
  generation: placed?.number ?? null,
  version: placed?.version ?? null,
  isOlder: exitCode === exitCodes.rolledBack,
  isHeld: exitCode === exitCodes.halted,
});

async function bootWith(config: SluicedConfig, terminal: BootTerminal): Promise<number> {
  const time = { patience: AbortSignal.timeout(limits.bootPatienceMs), fallbacks: AbortSignal.timeout(fallbacksMs) };
  try {
    return await within(config, 'change', (node) => bootAsUsual(node, time, terminal));
  } catch (error) {
    if (!(error instanceof StateError) || error.code !== 'NODE_STATE_INVALID') throw error;
    return await within(config, 'frozen', (node) => bootFrozen(node, error, time, terminal));
  }
}

/** Logs failures with a priority, because a unit runs this command. */
async function bootTerminal(
  config: SluicedConfig,
  options: CommonOptions,
  terminal: Terminal,
  loaded: (generation: Generation) => void,
): Promise<BootTerminal> {
  const log = await terminal.openLog?.(logSettings(config));
  const out = linesOf(options, terminal);
  if (!log) return { ...terminal, out, loaded };
  const err = (text: string): void => {
    const [message = '', ...hint] = text.trim().split(/\n\s*/);
    log.error(hint.length === 0 ? {} : { hint: hint.join(' ') }, message);
  };
  return { ...terminal, out, err, note: (text) => log.info({}, text.trim()), loaded };
}

async function within(
  config: SluicedConfig,
  mode: SessionMode,
  work: (node: BootNode) => Promise<number>,
): Promise<number> {
  using session = await openSession(config, mode, () => undefined);
  return await work(session);
}

/** What the attempts of one boot found. */
interface BootFindings {
  /** Whether the kernel held no rules before. */
  wasBare?: boolean | undefined;
  /** The outcome of the change that was left open. */
  left?: Outcome | undefined;
}

/** @returns the exit code */
export async function bootAsUsual(node: BootNode, time: BootTime, terminal: BootTerminal): Promise<number> {
  const { journal } = node;
  const isDamaged = journal.damaged !== undefined || journal.lost !== undefined;
  const found: BootFindings = {};
  let steps: number | undefined;
  try {
    steps = await untilVerdict(() => recoverAndReconcile(node, found, time), time.waits);
  } catch (error) {
    // A disk that takes no write says nothing about the rules.
    if (error instanceof StateError) throw error;
    terminal.err(`${failed(journal)}: ${messageOf(error)}\n`);
  }
  if (journal.halted !== undefined || found.left?.kind === 'held') return bootHalted(node, found, time, terminal);
  if (found.left) note(`first: ${describe(found.left)}\n`, terminal);
  if (steps === undefined) return bootEarlier(node, time, terminal);
  const { active } = journal;
  if (isDamaged && active?.number === 0) {
    terminal.err('Cannot load any generation with Services: this node has none until a bundle goes in\n');
    return exitCodes.halted;
  }
  if (active) printLoaded(active, ` (${steps} steps)`, terminal);
  else terminal.out('no generation is confirmed yet: nothing to load\n');
  return active && isDamaged ? exitCodes.rolledBack : exitCodes.done;
}

function note(text: string, terminal: BootTerminal): void {
  if (terminal.note) terminal.note(text);
  else terminal.err(text);
}

function failed({ halted, open, record }: BootNode['journal']): string {
  if (halted !== undefined) return 'Cannot find out the active generation';
  return open ? 'Cannot finish the change that was left open' : `Cannot load generation ${record.current?.number ?? 0}`;
}

/** @returns the number of steps that it took to load the confirmed generation */
async function recoverAndReconcile(
  { reconciler, journal }: BootNode,
  found: BootFindings,
  { patience }: BootTime,
): Promise<number> {
  // Finishing an open change may load rules before the node is halted. A failed check must not leave the node without rules.
  if (journal.open) found.wasBare ??= await reconciler.isBare().catch(() => undefined);
  found.left ??= await reconciler.recover(patience);
  if (found.left?.kind === 'pending') {
    const { because, rollback } = found.left;
    found.left = undefined;
    throw new Error(`${because}: ${rollback}`);
  }
  return found.left?.kind === 'held' ? 0 : Number(await reconciler.repair());
}

/**
 * A halted node keeps the rules in its kernel. After a boot there are none: then the confirmed generation is loaded. The node stays halted
 * until an operator ends it.
 */
async function bootHalted(
  node: BootNode,
  { wasBare, left }: BootFindings,
  time: BootTime,
  terminal: BootTerminal,
): Promise<number> {
  const { reconciler, journal } = node;
  if (wasBare ?? (await retried(() => reconciler.isBare(), time).catch(() => false)))
    await loadAny(node, time, terminal);
  const held = { kind: 'held', because: journal.halted ?? '', rollback: 'not tried again' } as const;
  return printOutcome(left?.kind === 'held' ? left : held, terminal);
}

/** Without a writable disk: loads the confirmed generation, or an earlier one, and finishes nothing that was left open. */
export async function bootFrozen(
  node: BootNode,
  because: StateError,
  time: BootTime,
  terminal: BootTerminal,
): Promise<number> {
  const { reconciler, journal } = node;
  const isHalted = journal.halted !== undefined;
  const wasBare = isHalted && (await retried(() => reconciler.isBare(), time));
  if (isHalted ? !wasBare : !journal.active) throw because;
  terminal.err(`${because.message}\n    ${because.hint}\n`);
  if (isHalted) return bootHalted(node, { wasBare }, time, terminal);
  if (!(await loadAny(node, time, terminal))) return noneLoaded(terminal);
  terminal.out('the disk takes no write: no new bundle is applied\n');
  return exitCodes.rolledBack;
}

/**
 * Where the confirmed generation cannot be loaded, an earlier one becomes active. A change that cannot be finished stays open instead, and
 * an earlier generation stands in for it: the next process finishes the change, and its release is not blocked.
 */
async function bootEarlier(node: BootNode, time: BootTime, terminal: BootTerminal): Promise<number> {
  const { reconciler, journal } = node;
  const instead = ` instead of ${journal.record.current?.number ?? 0}`;
  const loadsInstead = async (target: Generation): Promise<boolean> => {
    // A disk that takes no write must not leave the node without rules.
    if (target !== journal.active) await journal.recordStandIn(target).catch(() => undefined);
    return isLoaded(node, target, terminal);
  };
  const rollsBackTo = async (target: Generation): Promise<boolean> => {
    const outcome = await reconciler.rollBackTo(target, { isLastResort: true });
    if (outcome.kind !== 'confirmed') return false;
    printLoaded(target, instead, terminal);
    return true;
  };
  const isOpen = journal.open !== undefined;
  if (!isOpen) note('    Trying an earlier generation\n', terminal);
  const isDone = isOpen
    ? await firstLoaded(unfinished(journal, time), time, loadsInstead)
    : await firstLoaded(before(journal), time, rollsBackTo);
  return isDone ? exitCodes.rolledBack : noneLoaded(terminal);
}

/** The previous generation comes first when a tool took so long that time may be left for one only. */
async function* unfinished(journal: BootNode['journal'], { patience }: BootTime): AsyncGenerator<Generation> {
  const { active } = journal;
  const isLate = patience.aborted;
  if (active && !isLate) yield active;
  yield* before(journal);
  if (active && isLate) yield active;
}

function noneLoaded(terminal: BootTerminal): number {
  terminal.err('Cannot load any older generation: manual intervention is required\n');
  return exitCodes.halted;
}

/**
 * Loads the active generation, or else the newest earlier one that the kernel accepts, and writes nothing. Where the active one is unknown
 * or unreadable, its replacement is retried, too.
 */
async function loadAny(node: BootNode, time: BootTime, terminal: BootTerminal): Promise<boolean> {
  const { active } = node.journal;
  if (active && (await isLoaded(node, active, terminal, time))) return true;
  return firstLoaded(before(node.journal), time, async (target) =>
    isLoaded(node, target, terminal, active ? undefined : time),
  );
}

/** Tries one after the other; the first one always, even late: it may fit into the time left, and a node without rules loses nothing. */
async function firstLoaded(
  targets: AsyncIterable<Generation>,
  { fallbacks }: BootTime,
  work: (target: Generation) => Promise<boolean>,
): Promise<boolean> {
  let isFirst = true;
  for await (const target of targets) {
    if (fallbacks.aborted && !isFirst) return false;
    if (await work(target)) return true;
    isFirst = false;
  }
  return false;
}

/** @param time retries as long as there is some; default: no retry */
async function isLoaded(
  { reconciler }: BootNode,
  target: Generation,
  terminal: BootTerminal,
  time?: BootTime,
): Promise<boolean> {
  const work = async (): Promise<void> => reconciler.load(target);
  try {
    await (time ? retried(work, time) : work());
  } catch (error) {
    terminal.err(`Cannot load generation ${target.number}: ${messageOf(error)}\n`);
    return false;
  }
  printLoaded(target, '', terminal);
  return true;
}

async function retried<T>(work: () => Promise<T>, { patience, waits }: BootTime): Promise<T> {
  return patience.aborted ? work() : untilVerdict(work, waits);
}

/**
 * Replacements for the active generation, newest first; of a lost journal, those known to have been active. Generation 0 is not among them:
 * it has no Service rules.
 */
async function* before(journal: BootNode['journal']): AsyncGenerator<Generation> {
  if (journal.lost !== undefined) {
    for (const { wasActive, generation } of journal.storedGenerations()) {
      // The remaining ones are many, and large.
      if (!wasActive) break;
      yield generation;
    }
  }
  for (let number = (journal.record.current?.number ?? 0) - 1; number > 0; number--) {
    const generation = await journal.generation(number);
    if (generation) yield generation;
  }
}

function printLoaded(generation: Generation, more: string, terminal: BootTerminal): void {
  const { number, version } = generation;
  terminal.loaded?.(generation);
  terminal.out(`loaded generation ${number} (version ${version})${more}\n`);
}

/** The clock of a retry. */
export interface Time {
  readonly monotonicMs: () => number;
  readonly sleep: (ms: number) => Promise<unknown>;
}

const realTime: Time = { monotonicMs: () => performance.now(), sleep: (ms) => setTimeout(ms) };

/**
 * Retries work that fails, on a machine that is busy starting: only a repeated failure is a verdict. A try that took long, as with a tool
 * that hangs, is not repeated, so that time is left for a rollback.
 * @throws the error of the last try
 */
export async function untilVerdict<T>(work: () => Promise<T>, { monotonicMs, sleep }: Time = realTime): Promise<T> {
  const beginMs = monotonicMs();
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      const isLate = monotonicMs() - beginMs > limits.bootPatienceMs;
      if (isLate || attempt >= limits.bootAttemptsMax) throw error;
      await sleep(limits.rollbackIntervalMs);
    }
  }
}
