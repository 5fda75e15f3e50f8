import { describeWindow, endIpvs } from '../../ports/ipvs/window.ts';
import { limits } from '../../limits.ts';
import { carryOut, restore, withDropped } from './restore.ts';
import { forgetAfter } from './forgetting.ts';
import { messageOf } from '../../message.ts';
import { isOfSurroundings } from '../../ports/failure.ts';
import type { Generation } from '../../ports/journal.ts';
import type { Step } from '../../ports/kernel.ts';
import { orReport } from '../report-failure.ts';
import type { Ports } from '../../ports/ports.ts';
import type { NodeState } from '../../ports/node-state.ts';
import { firstDifference, ipvsLeft } from './verify.ts';
import { attempt, ended, halt, holdByFamily, ownedNames, switchOff, unended } from './roll-back.ts';
import type { PlannedChange, TransactionResult } from './planned-change.ts';
import { stepsOf } from '../plan/transaction-plan.ts';
import { nodePlaneOf } from '../planes/planes.ts';

/**
 * The phase after the commit record. The defaults must not be rewritten while the dead-man switch can fire: a set that expires between
 * the defaults of two tables would leave one table on each program. So the switch is pinned first, and removed when no rule asks it any
 * more. Not in mode nftables: there one transaction rewrites the defaults and turns the switch off. If a planned step fails, the committed
 * generation is restored from whatever the kernel shows.
 */
export async function finish(change: PlannedChange, ports: Ports): Promise<TransactionResult> {
  const { plan, from } = change;
  try {
    await asPlanned(change, ports);
  } catch (error) {
    ports.report('finish-failed', { because: messageOf(error) });
    return restoreCommitted(from, ports);
  }
  return confirmed(plan.desired, stepsOf(plan).length, ports);
}

async function asPlanned(change: PlannedChange, ports: Ports): Promise<void> {
  const { plan, flows } = change;
  const { kernel } = ports;
  const needsPin = plan.flip === 'switch' && !nodePlaneOf(plan.desired).hasOwnTable;
  if (needsPin) await pin(ports);
  await carryOut(plan.defaults, ports);
  const difference = await firstDifference(plan.afterDefaults, plan.defaults, kernel);
  if (difference !== undefined) throw new Error(`the kernel does not hold the new defaults: ${difference}`);
  // Before addresses of virtual servers go: a client of UDP that keeps its port would go on to them.
  if (plan.flip === 'switch') await forgetAfter(flows.old, ports);
  await removeOld(change, ports);
  const left = await ipvsLeft(change, ports);
  if (left !== undefined) throw new Error(`mode ipvs is not gone: ${left}`);
  if (needsPin) await kernel.switch?.remove();
}

/**
 * Carries out the steps that remove what only the old program needs. On a node that leaves mode ipvs, connections that IPVS forwards may end
 * first, for a short time: a probation is long enough for most of them.
 *
 * Reports: `ipvs-left` with the window of mode ipvs, and in words (`what`).
 * @throws KernelError
 */
async function removeOld({ plan, owned }: PlannedChange, ports: Ports): Promise<void> {
  const { kernel, clock, report } = ports;
  const remove = (): Promise<void> => carryOut(plan.finish, ports);
  // Rules that only virtual servers need go with them.
  if (!plan.finish.steps.some(isOfIpvs) || !kernel.ipvs) return remove();
  const end = { servers: owned.ipvs?.servers ?? [], waitMs: limits.ipvsEndMsMax, remove };
  const window = await endIpvs(end, { ipvs: kernel.ipvs, clock });
  report('ipvs-left', { ...window, what: describeWindow(window) });
}

const isOfIpvs = ({ kind }: Step): boolean => kind === 'ip' || kind === 'ipvsadm' || kind === 'ipset';

/** Turns the switch on without a time-out, so that packets stay on the new program. Never before the commit record. */
async function pin({ kernel }: Pick<Ports, 'kernel'>): Promise<void> {
  await kernel.switch?.on(0);
}

/**
 * Makes the kernel hold the committed generation, from whatever it shows: after a crash, and where planned steps failed. A rollback is
 * not possible any more: where it fails see `unended`. Sysctls that only the generation before it sets get their original values.
 * @param from the generation before it; undefined when it cannot be read any more
 */
export async function restoreCommitted(from: Generation | undefined, ports: Ports): Promise<TransactionResult> {
  const { journal, kernel } = ports;
  const { active, originals } = journal;
  const because = 'the confirmed change cannot be finished';
  if (!active) {
    const rollback = 'the committed generation cannot be read';
    await halt(`${because}: ${rollback}`, ports);
    return { outcome: { kind: 'held', because, rollback } };
  }
  const once = async (): Promise<TransactionResult> => {
    if (await kernel.switch?.look()) await pin(ports);
    const state = from ? withDropped(active.state, from.state, originals) : active.state;
    const desired = await restore(state, await ownedNames(from ?? active, ports), ports);
    await switchOff(ports);
    await kernel.switch?.remove();
    await forgetAfter((await journal.openFlows()).old, ports);
    return confirmed(desired, 0, ports);
  };
  const tried = await attempt(once, 'finish-failed', limits.finishAttemptsMax, ports);
  if (tried.kind === 'done') {
    ended(journal);
    return tried.result;
  }
  if (!isOfSurroundings(tried.error))
    await holdByFamily({ newest: undefined, plain: { generation: active, flows: [] }, other: from }, ports);
  return { outcome: await unended({ because, fault: 'process' }, 'its last steps failed', tried.error, ports) };
}

async function confirmed(desired: NodeState, steps: number, { journal, report }: Ports): Promise<TransactionResult> {
  const active = journal.active as Generation;
  // The commit record is on the disk: the next process finds a committed transaction with nothing left to do.
  await orReport('settle-not-written', { report }, () => journal.finish());
  return { outcome: { kind: 'confirmed', generation: active, steps }, kernelState: desired };
}
