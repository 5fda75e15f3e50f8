import { limits } from '../limits.ts';
import { carryOut } from '../rollout/carry-out.ts';
import { forgetAfter } from '../rollout/forgetting.ts';
import { messageOf } from '../rollout/message.ts';
import type { Generation, Ports } from '../rollout/ports.ts';
import { restore } from '../rollout/restore.ts';
import type { NodeState } from '../rollout/state.ts';
import { unlike } from '../rollout/verify.ts';
import { hold, ownedNames, switchOff } from './back.ts';
import { type Change, type Ending, virtualLeft } from './transaction.ts';
import { stepsOf } from './way.ts';

/**
 * What is left to do after the commit token. The defaults must not be rewritten while the dead-man can fire: a set that expires
 * between the defaults of two tables would leave one on each program. So the switch is pinned first, and emptied last.
 */
export async function finish(change: Change, ports: Ports): Promise<Ending> {
  const { way, flows, from } = change;
  try {
    await asPlanned(change, ports);
  } catch (error) {
    ports.report('finish-failed', { because: messageOf(error) });
    return settleOn(from, ports);
  }
  if (way.flip === 'switch') await forgetAfter(flows.old, ports);
  return settled(way.desired, stepsOf(way).length, ports);
}

async function asPlanned(change: Change, ports: Ports): Promise<void> {
  const { way, owned } = change;
  const { kernel } = ports;
  if (way.flip === 'switch') await pin(ports);
  await carryOut(way.defaults, ports);
  const difference = await unlike(way.settling, way.defaults, kernel);
  if (difference !== undefined) throw new Error(`the kernel does not hold the new defaults: ${difference}`);
  if (way.flip === 'switch') await switchOff(ports);
  await carryOut(way.collect, ports);
  const { left } = owned.ipvs && !way.desired.ipvs ? await virtualLeft(change, ports) : {};
  if (left !== undefined) throw new Error(`mode ipvs is not gone: ${left}`);
  if (way.flip === 'switch') await kernel.switch?.remove();
}

/** No time-out can take packets back to the old program any more. Never before the token. */
export async function pin({ kernel }: Pick<Ports, 'kernel'>): Promise<void> {
  await kernel.switch?.on(0);
}

/**
 * Makes the kernel hold the committed generation, from whatever it shows: after a crash, and where the planned steps failed. There
 * is no way back from here, so a kernel that does not take it holds the node.
 * @param from the generation that stood; undefined when it cannot be read any more
 */
export async function settleOn(from: Generation | undefined, ports: Ports): Promise<Ending> {
  const { journal, clock, report, kernel } = ports;
  const { active } = journal;
  let why = 'the committed generation cannot be read';
  for (let attempts = 1; attempts <= limits.finishAttemptsMax; attempts++) {
    if (!active) break;
    try {
      if (await kernel.switch?.look()) await pin(ports);
      const desired = await restore(active.state, await ownedNames(from ?? active, ports), ports);
      await switchOff(ports);
      await kernel.switch?.remove();
      await forgetAfter((await journal.openFlows()).old, ports);
      return await settled(desired, 0, ports);
    } catch (error) {
      why = messageOf(error);
      report('finish-failed', { attempt: attempts, because: why });
      if (attempts < limits.finishAttemptsMax) await clock.sleep(limits.rollbackIntervalMs * attempts);
    }
  }
  const because = 'the confirmed change cannot be finished';
  await hold(`${because}: ${why}`, ports);
  return { outcome: { kind: 'held', because, rollback: why } };
}

async function settled(desired: NodeState, steps: number, { journal, report }: Ports): Promise<Ending> {
  const active = journal.active as Generation;
  try {
    await journal.finish();
  } catch (error) {
    // The token is on the disk: the next process finds a committed transaction with nothing left to do.
    report('settle-not-written', { because: messageOf(error) });
  }
  return { outcome: { kind: 'confirmed', generation: active, steps }, settled: desired };
}
