import { flowChange, pendingFlows } from '../plan/flows.ts';
import { forgetAfter } from './forgetting.ts';
import { messageOf } from '../message.ts';
import type { Generation } from '../ports/journal.ts';
import type { Ports } from '../ports/ports.ts';
import { restore, withDropped, withSysctls } from './restore.ts';
import type { NodeState } from '../ports/node-state.ts';
import { switchOff, rollbackState } from './roll-back.ts';
import { foreignSysctls } from './decide-change.ts';
import { endpointChanges } from '../endpoints/endpoint-changes.ts';
import { decline } from '../endpoints/decline.ts';
import { endpointsText } from '../endpoints/endpoints-text.ts';
import { ownedNow } from './clean-up.ts';
import type { TransactionResult } from './planned-change.ts';

/**
 * Rolls back to a generation on request of the operator. The version that is left is quarantined, so that the daemon does not apply it
 * again by itself; a halted node is no longer halted.
 * @throws StateError if the journal cannot be written and it is the last resort; the kernel holds the target then
 */
export async function rollBackTo(
  target: Generation,
  { isLastResort = false, stored = target, declines = false }: RollBackOptions,
  ports: Ports,
): Promise<TransactionResult> {
  const { journal, kernel } = ports;
  const { active } = journal;
  const before = active ? withDropped(target.state, active.state, journal.originals) : target.state;
  const old = rollbackState(before, ports);
  if (active && !isLastResort) await writeIntent([target, stored], active, old, ports);
  let kernelState: TransactionResult['kernelState'];
  try {
    await switchOff(ports);
    kernelState = await restore(old, await ownedNow(ports), ports);
    await kernel.switch?.remove();
  } catch (error) {
    const because = `generation ${target.number} cannot be loaded`;
    return { outcome: { kind: 'held', because, rollback: messageOf(error) } };
  }
  if (active && declines) decline(declinedBy(target.state, active.state, ports), ports);
  if (active) await forgetAfter([...flowChange(active.state, old).old, ...pendingFlows(old, active.state)], ports);
  const outcome = { kind: 'confirmed', generation: target, steps: 0 } as const;
  let because: string;
  try {
    const written = await writeFirst([target, stored], (one) => journal.choose(one));
    if (written.revision === target.revision) return { outcome, kernelState };
    because = 'the disk has no room for the newest endpoints; the journal has the original ones of the generation';
  } catch (error) {
    if (isLastResort) throw error;
    because = messageOf(error);
  }
  chooseUnwritten(target, stored, ports);
  return { outcome: { ...outcome, unwritten: because }, kernelState };
}

/** Keeps the choice in memory: the daemon would otherwise repair the kernel back to the generation on the disk. */
function chooseUnwritten(target: Generation, stored: Generation, { journal, report }: Ports): void {
  try {
    journal.chooseUnwritten(target, stored);
  } catch (error) {
    report('not-chosen', { because: messageOf(error) });
  }
}

/** How to roll back on request of the operator. */
export interface RollBackOptions {
  /** The active generation cannot be loaded: after a crash the next process must not return to it. */
  readonly isLastResort?: boolean;
  /** The target as the store has it, perhaps with other endpoints: the fallback for a disk without room. */
  readonly stored?: Generation;
  /** Endpoints that are rolled back are declined: they return with the next release, not by early endpoint sync. */
  readonly declines?: boolean;
}

function declinedBy(old: NodeState, left: NodeState, { declined }: Ports): ReadonlyMap<string, string> {
  const changes = endpointChanges(old, left).filter(({ after }) => after.length > 0);
  return new Map([...declined.read(), ...changes.map(({ key, after }) => [key, endpointsText(after)] as const)]);
}

/** Writes the intent of the rollback. A disk that takes no write does not prevent the rollback: the outcome says so (`unwritten`). */
async function writeIntent(
  targets: readonly Generation[],
  active: Generation,
  old: NodeState,
  ports: Ports,
): Promise<void> {
  try {
    await writeFirst(targets, (target) => beginRollback(target, active, old, ports));
  } catch (error) {
    ports.report('not-announced', { because: messageOf(error) });
  }
}

/** Writes the first of the targets that the disk has room for. @throws the error of the last one */
async function writeFirst<T>(targets: readonly Generation[], write: (target: Generation) => Promise<T>): Promise<T> {
  const [first, ...others] = targets;
  try {
    return await write(first as Generation);
  } catch (error) {
    if (others.every((other) => other === first)) throw error;
    return writeFirst(others, write);
  }
}

/** Opens a transaction in the journal, so that after a crash the next process knows the chains of both generations. */
async function beginRollback(
  { version, state }: Generation,
  active: Generation,
  old: NodeState,
  ports: Ports,
): Promise<void> {
  const { journal } = ports;
  if (journal.open || journal.halted !== undefined) return;
  const now = await withSysctls({ families: {}, sysctls: new Map() }, old, ports);
  const sysctls = foreignSysctls(active.state, old, now);
  const flows = flowChange(active.state, old);
  await journal.begin({ changeKind: 'release', flip: 'ordered', version, state, sysctls, flows });
}
