import { addAll } from '@sluice/bundle';
import { limits } from '../limits.ts';
import { pendingFlows } from '../rollout/flows.ts';
import { forgetAfter } from '../rollout/forgetting.ts';
import { messageOf } from '../rollout/message.ts';
import type { Fault, Flow, Generation, Ports } from '../rollout/ports.ts';
import { restore } from '../rollout/restore.ts';
import { type ChainNames, chainNames, familiesOf, joinNames, type NodeState } from '../rollout/state.ts';
import { baseChainParts } from './beside.ts';
import { leakedChains } from './leaked-chains.ts';
import type { Ending } from './transaction.ts';

/**
 * Puts the kernel back to the generation that stood and closes the transaction; holds the node when that cannot be done. Safe to
 * repeat, and right from wherever the change stopped: it plans from what the kernel shows.
 *
 * The switch comes first: it needs no lock of any table, and from then on packets go the old way. nat before filter, for packets
 * that nat sent to the new program must still find its filter.
 */
export async function rollBack(because: string, from: Generation, fault: Fault, ports: Ports): Promise<Ending> {
  const { clock, report } = ports;
  report('rolling-back', { because });
  const isBySwitch = ports.journal.open?.flip === 'switch';
  let why = '';
  for (let attempts = 1; attempts <= limits.rollbackAttemptsMax; attempts++) {
    try {
      const fresh = await freshFlows(from, ports);
      await switchOff(ports);
      // A flow that is forgotten before packets go the old way comes back as it was.
      if (isBySwitch) await forgetAfter(fresh, ports);
      const settled = await restore(wayBack(from.state, ports), await ownedNames(from, ports), ports);
      if (!isBySwitch) await forgetAfter(fresh, ports);
      await ports.kernel.switch?.remove();
      await abandon(because, fault, ports);
      return { outcome: { kind: 'rolled-back', because }, settled };
    } catch (error) {
      why = messageOf(error);
      report('rollback-failed', { attempt: attempts, because: why });
      if (attempts < limits.rollbackAttemptsMax) await clock.sleep(limits.rollbackIntervalMs * attempts);
    }
  }
  await hold(`${because}; the way back failed: ${why}`, ports);
  return { outcome: { kind: 'held', because, rollback: why } };
}

/**
 * What only the program on trial has. Its flows of TCP are not in the journal: there are as many as ways to endpoints, and they are
 * wanted here alone.
 */
async function freshFlows(from: Generation, { journal }: Pick<Ports, 'journal'>): Promise<readonly Flow[]> {
  const { open } = journal;
  const pending: Flow[] = [];
  for (const id of open ? [open.to, ...(open.update ? [open.update.to] : [])] : []) {
    const tried = await journal.generation(id.number, id.revision);
    if (tried) addAll(pending, pendingFlows(from.state, tried.state));
  }
  return [...(await journal.openFlows()).fresh, ...pending];
}

/** A disk that takes no write leaves the transaction open: the old rules are in, and the next look goes the same way once more. */
async function abandon(because: string, fault: Fault, { journal, report }: Ports): Promise<void> {
  try {
    await journal.abandon(because, fault);
  } catch (error) {
    report('abandon-not-written', { because: messageOf(error) });
  }
}

/** Writes down that a person must look. On a disk that takes no write the node is held as long as this process lives. */
export async function hold(because: string, { journal, report }: Pick<Ports, 'journal' | 'report'>): Promise<void> {
  try {
    await journal.halt(because);
  } catch (error) {
    report('hold-not-written', { because: messageOf(error) });
  }
}

/** Packets go the old way, and filter follows when those on their way are through. */
export async function switchOff({ kernel, clock }: Pick<Ports, 'kernel' | 'clock'>): Promise<void> {
  if ((await kernel.switch?.look()) === undefined) return;
  await kernel.switch?.off('nat');
  await clock.sleep(limits.narrowPauseMs);
  await kernel.switch?.off('filter');
}

/**
 * The chains that the open transaction may have made or left, and those of the generation that stood. Where one of its generations
 * cannot be read any more, what it made is told by the names that the kernel shows.
 */
export async function ownedNames(
  from: Generation,
  { journal, kernel }: Pick<Ports, 'journal' | 'kernel'>,
): Promise<ChainNames> {
  const { open } = journal;
  let own = chainNames(from.state);
  let isKnown = true;
  const ids = open ? [open.from, open.to, ...(open.update ? [open.update.from, open.update.to] : [])] : [];
  for (const id of ids) {
    if (id.number === from.number && id.revision === from.revision) continue;
    const made = await journal.generation(id.number, id.revision);
    if (made) own = joinNames(joinNames(own, chainNames(made.state)), baseChainParts(from.state, made.state));
    else isKnown = false;
  }
  return isKnown ? own : joinNames(own, leakedChains(await kernel.observe(familiesOf(from.state)), from.state));
}

/** The state to go back to: the generation, and sysctls that it does not set as they were. */
export function wayBack(state: NodeState, { journal }: Pick<Ports, 'journal'>): NodeState {
  return { ...state, sysctls: new Map([...(journal.open?.sysctls ?? []), ...state.sysctls]) };
}
