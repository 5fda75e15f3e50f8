import { addAll } from '@sluice/netfilter';
import { limits } from '../limits.ts';
import { pendingFlows } from '../plan/flows.ts';
import { forgetAfter } from './forgetting.ts';
import { messageOf } from '../message.ts';
import type { Fault, Generation } from '../ports/journal.ts';
import type { TrackedFlow } from '../ports/kernel.ts';
import type { Ports } from '../ports/ports.ts';
import { restore } from './restore.ts';
import { type OwnedNames, chainNames, familiesOf, joinNames, type NodeState } from '../ports/node-state.ts';
import { baseChainParts, leakedChains } from '../plan/side-by-side.ts';
import type { TransactionResult } from './planned-change.ts';

/**
 * Returns the kernel to the previous generation and closes the transaction; halts the node if that fails
 * `limits.rollbackAttemptsMax` times. Idempotent, and correct from wherever the change stopped: it plans from the observed state.
 *
 * The switch goes off first: that needs no table lock, and from then on packets meet the old program. nat before filter, because
 * packets that nat sent to the new program must still pass its filter.
 * @param from the generation to return to
 * @param fault whether the bundle is to blame: its version is quarantined then
 */
export async function rollBack(
  because: string,
  from: Generation,
  fault: Fault,
  ports: Ports,
): Promise<TransactionResult> {
  const { clock, report } = ports;
  report('rolling-back', { because });
  const isBySwitch = ports.journal.open?.flip === 'switch';
  let why = '';
  for (let attempts = 1; attempts <= limits.rollbackAttemptsMax; attempts++) {
    try {
      // Before anything is read: packets come first.
      if (isBySwitch) await ports.kernel.switch?.off('nat');
      const fresh = await freshFlows(from, ports);
      await switchOff(ports);
      // Only after packets meet the old program: a flow forgotten earlier would come back as it was.
      if (isBySwitch) await forgetAfter(fresh, ports);
      const kernelState = await restore(rollbackState(from.state, ports), await ownedNames(from, ports), ports);
      if (!isBySwitch) await forgetAfter(fresh, ports);
      await ports.kernel.switch?.remove();
      await abandon(because, fault, ports);
      return { outcome: { kind: 'rolled-back', because }, kernelState };
    } catch (error) {
      why = messageOf(error);
      report('rollback-failed', { attempt: attempts, because: why });
      if (attempts < limits.rollbackAttemptsMax) await clock.sleep(limits.rollbackIntervalMs * attempts);
    }
  }
  await halt(`${because}; the rollback failed: ${why}`, ports);
  return { outcome: { kind: 'held', because, rollback: why } };
}

/**
 * The flows that only the program in probation has. Those of TCP are not in the journal: there is one per frontend and endpoint, and
 * only a rollback needs them.
 */
async function freshFlows(from: Generation, { journal }: Pick<Ports, 'journal'>): Promise<readonly TrackedFlow[]> {
  const { open } = journal;
  const pending: TrackedFlow[] = [];
  for (const id of open ? [open.to, ...(open.update ? [open.update.to] : [])] : []) {
    const tried = await journal.generation(id.number, id.revision);
    if (tried) addAll(pending, pendingFlows(from.state, tried.state));
  }
  return [...(await journal.openFlows()).fresh, ...pending];
}

/** On a full or read-only disk the transaction stays open: the old rules are in the kernel, and the next recovery repeats the rollback. */
async function abandon(because: string, fault: Fault, { journal, report }: Ports): Promise<void> {
  try {
    await journal.abandon(because, fault);
  } catch (error) {
    report('abandon-not-written', { because: messageOf(error) });
  }
}

/** Halts the node. If the disk takes no write, the halt lasts only as long as this process. */
export async function halt(because: string, { journal, report }: Pick<Ports, 'journal' | 'report'>): Promise<void> {
  try {
    await journal.halt(because);
  } catch (error) {
    report('hold-not-written', { because: messageOf(error) });
  }
}

/** Sends packets to the old program: nat at once, filter when packets in flight have passed. Does nothing without sets. */
export async function switchOff({ kernel, clock }: Pick<Ports, 'kernel' | 'clock'>): Promise<void> {
  if ((await kernel.switch?.look()) === undefined) return;
  await kernel.switch?.off('nat');
  await clock.sleep(limits.narrowPauseMs);
  await kernel.switch?.off('filter');
}

/**
 * The names of all chains that are ours: those of `from`, and those that the open transaction may have made. If one of its generations
 * cannot be read any more, its chains are found by the names in the kernel (`leakedChains`).
 */
export async function ownedNames(
  from: Generation,
  { journal, kernel }: Pick<Ports, 'journal' | 'kernel'>,
): Promise<OwnedNames> {
  const { open } = journal;
  let own = chainNames(from.state);
  let isKnown = true;
  const ids = open ? [open.from, open.to, ...(open.update ? [open.update.from, open.update.to] : [])] : [];
  for (const id of ids) {
    if (id.number === from.number && id.revision === from.revision) continue;
    const made = await journal.generation(id.number, id.revision);
    // Of each base chain: what is replaced may have been a kube-proxy's, which `from` does not name.
    if (made) own = joinNames(joinNames(own, chainNames(made.state)), baseChainParts(made.state, made.state));
    else isKnown = false;
  }
  return isKnown ? own : joinNames(own, leakedChains(await kernel.observe(familiesOf(from.state)), from.state));
}

/** The state to roll back to: that of the generation, and the old values of the sysctls that only the open transaction set. */
export function rollbackState(state: NodeState, { journal }: Pick<Ports, 'journal'>): NodeState {
  return { ...state, sysctls: new Map([...(journal.open?.sysctls ?? []), ...state.sysctls]) };
}
