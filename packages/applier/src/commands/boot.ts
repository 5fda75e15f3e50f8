import type { Config } from '../config.ts';
import { describe, exitCodes, type Outcome } from '../rollout/outcome.ts';
import type { Generation } from '../rollout/ports.ts';
import { messageOf } from '../rollout/message.ts';
import { StateError } from '../store/state-error.ts';
import { patiently } from './patiently.ts';
import { openSession, type Session } from './session.ts';
import { type CommonOptions, loadConfig, tell, type Terminal } from './terminal.ts';

/**
 * `sluiced boot`: makes the kernel hold the last confirmed generation, its sysctls too, from what is on this disk alone. A generation
 * that cannot be read, or that this kernel does not take when it is asked again, where time allows that, is passed over for the one
 * before it; without a journal, the one that is known to have stood is taken. A disk that takes no write keeps no rules from a node.
 */
export async function boot(options: CommonOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  try {
    return await bootAsUsual(config, terminal);
  } catch (error) {
    if (!(error instanceof StateError) || error.code !== 'NODE_STATE_INVALID') throw error;
    return await bootFrozen(config, error, terminal);
  }
}

async function bootAsUsual(config: Config, terminal: Terminal): Promise<number> {
  const session = await openSession(config, 'change', () => undefined);
  try {
    const { keeper, journal } = session;
    const isDamaged = journal.damaged !== undefined || journal.lost !== undefined;
    // What is left open may put rules in before the node is held.
    const wasBare = await isBare(session);
    const left = await keeper.recover();
    if (left?.kind === 'held') return wasBare ? await bootHeld(session, left, terminal) : tell(left, terminal);
    if (left) terminal.err(`first: ${describe(left)}\n`);
    const standing = journal.standing;
    if (!standing) {
      terminal.out('no generation was confirmed yet: nothing to do\n');
      return exitCodes.done;
    }
    try {
      const steps = await patiently(() => keeper.settle());
      terminal.out(`generation ${standing.number} (version ${standing.version}) is in place (${steps} steps)\n`);
      return isDamaged ? exitCodes.rolledBack : exitCodes.done;
    } catch (error) {
      // A disk that takes no write says nothing of the rules.
      if (error instanceof StateError) throw error;
      return await fallBack(session, messageOf(error), terminal);
    }
  } finally {
    session.close();
  }
}

/** Asked only where a node may be held: nothing else depends on it, and a look that fails must not keep rules from a node. */
async function isBare({ keeper, journal }: Session): Promise<boolean> {
  if (journal.open === undefined && journal.held === undefined) return false;
  try {
    return await patiently(() => keeper.isBare());
  } catch {
    return false;
  }
}

/**
 * A node that is held goes on with what its kernel holds, which after a boot is nothing: then the confirmed generation is loaded. It
 * stays held, also when its kernel does not take that: only a person ends it.
 */
async function bootHeld({ keeper }: Session, held: Outcome, terminal: Terminal): Promise<number> {
  try {
    const standing = await patiently(() => keeper.loadHeld());
    if (standing) terminal.out(`generation ${standing.number} (version ${standing.version}) is in place\n`);
  } catch (error) {
    terminal.err(`Cannot load the confirmed generation: ${messageOf(error)}\n`);
  }
  return tell(held, terminal);
}

/** What can be done where nothing can be written: the confirmed generation, and nothing of what was left open. */
async function bootFrozen(config: Config, because: StateError, terminal: Terminal): Promise<number> {
  const session = await openSession(config, 'look', () => undefined);
  try {
    const { keeper, journal } = session;
    if (journal.held !== undefined && (await isBare(session))) {
      terminal.err(`${because.message}\n    ${because.hint}\n`);
      return await bootHeld(session, { kind: 'held', because: journal.held, rollback: 'not tried again' }, terminal);
    }
    const standing = await keeper.loadFrozen();
    if (!standing) throw because;
    terminal.err(`${because.message}\n    ${because.hint}\n`);
    terminal.out(`generation ${standing.number} (version ${standing.version}) is in place; nothing new is taken\n`);
    return exitCodes.rolledBack;
  } finally {
    session.close();
  }
}

/** Tries what was confirmed before, the newest first. What stood before Sluice is not tried: it is no set of Service rules. */
async function fallBack({ keeper, journal }: Session, because: string, terminal: Terminal): Promise<number> {
  const current = journal.record.current?.number ?? 0;
  terminal.err(`Cannot load generation ${current}: ${because}\n    The one before it is tried\n`);
  for (let number = current - 1; number > 0; number--) {
    const target: Generation | undefined = await journal.generation(number);
    if (!target) continue;
    const outcome = await keeper.backTo(target, true);
    if (outcome.kind !== 'confirmed') continue;
    terminal.out(`generation ${number} (version ${target.version}) is in place instead of ${current}\n`);
    return exitCodes.rolledBack;
  }
  terminal.err('No older generation can be loaded: a person must look\n');
  return exitCodes.held;
}
