import { flowChange, pendingFlows } from '../rollout/flows.ts';
import { forgetAfter } from '../rollout/forgetting.ts';
import { messageOf } from '../rollout/message.ts';
import type { Generation, Ports } from '../rollout/ports.ts';
import { restore, withDropped, withSysctls } from '../rollout/restore.ts';
import type { NodeState } from '../rollout/state.ts';
import { switchOff, wayBack } from './back.ts';
import { foreignSysctls } from './change.ts';
import { endpointChanges } from './endpoint-changes.ts';
import { decline } from './endpoint-rollback.ts';
import { endpointsText } from './endpoints-text.ts';
import { ownedNow } from './clean-up.ts';
import type { Ending } from './transaction.ts';

/**
 * Goes back to a generation because a person says so. The version that is left is remembered as bad, so that the daemon does not
 * bring it back by itself; a node that was held is free again.
 * @throws StateError when the journal cannot be written and it is the last resort; the kernel holds the target then
 */
export async function rollBackTo(
  target: Generation,
  { isLastResort = false, stored = target, declines = false }: RollBackOptions,
  ports: Ports,
): Promise<Ending> {
  const { journal, kernel } = ports;
  const { active } = journal;
  const before = active ? withDropped(target.state, active.state, journal.originals) : target.state;
  const old = wayBack(before, ports);
  if (active && !isLastResort) await announced([target, stored], active, old, ports);
  let settled: Ending['settled'];
  try {
    await switchOff(ports);
    settled = await restore(old, await ownedNow(ports), ports);
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
    const written = await firstTaken([target, stored], (one) => journal.choose(one));
    if (written.revision === target.revision) return { outcome, settled };
    because = 'the disk has no room for the newest endpoints, and keeps those of then';
  } catch (error) {
    if (isLastResort) throw error;
    because = messageOf(error);
  }
  goOnWith(target, stored, ports);
  return { outcome: { ...outcome, unwritten: because }, settled };
}

/** A daemon repairs by its journal: what the kernel holds now is no drift, though the disk does not know it. */
function goOnWith(target: Generation, stored: Generation, { journal, report }: Ports): void {
  try {
    journal.chooseUnwritten(target, stored);
  } catch (error) {
    report('not-chosen', { because: messageOf(error) });
  }
}

/** How a person's way back is made. */
export interface RollBackOptions {
  /** The generation that stands cannot be loaded: a process that ends here must not lead back to it. */
  readonly isLastResort?: boolean;
  /** The target as the store has it, perhaps with other endpoints: a disk without room takes no more than that. */
  readonly stored?: Generation;
  /** The endpoints that are left do not come back early, but with the next release. */
  readonly declines?: boolean;
}

function declinedBy(old: NodeState, left: NodeState, { declined }: Ports): ReadonlyMap<string, string> {
  const changes = endpointChanges(old, left).filter(({ after }) => after.length > 0);
  return new Map([...declined.read(), ...changes.map(({ key, after }) => [key, endpointsText(after)] as const)]);
}

/** A disk that takes no write keeps nobody from going back: that nothing is announced is said when it is done. */
async function announced(
  targets: readonly Generation[],
  active: Generation,
  old: NodeState,
  ports: Ports,
): Promise<void> {
  try {
    await firstTaken(targets, (target) => announce(target, active, old, ports));
  } catch (error) {
    ports.report('not-announced', { because: messageOf(error) });
  }
}

/** Writes the first that the disk takes. @throws what it said of the last one */
async function firstTaken<T>(targets: readonly Generation[], write: (target: Generation) => Promise<T>): Promise<T> {
  const [first, ...others] = targets;
  try {
    return await write(first as Generation);
  } catch (error) {
    if (others.every((other) => other === first)) throw error;
    return firstTaken(others, write);
  }
}

/**
 * Writes down where the tables are going, so that a process that ends on the way leaves nothing that nobody owns.
 */
async function announce(
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
