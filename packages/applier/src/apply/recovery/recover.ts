import { limits } from '../../limits.ts';
import type { OpenTransaction, Generation } from '../../ports/journal.ts';
import type { Ports, Report } from '../../ports/ports.ts';
import { halt, outlived, rollBack, switchOff, waitingFor } from '../transaction/roll-back.ts';
import { restoreCommitted } from '../transaction/finish.ts';
import { decide, observeUnfinished, type UnfinishedTransaction } from './decide.ts';
import type { TransactionResult } from '../transaction/planned-change.ts';
import type { Family } from '@sluice/netfilter';
import { nodePlaneOf } from '../planes/planes.ts';
import type { Outcome } from '../../ports/outcome.ts';
import { countNames, foreignProxyChains } from '../plan/ownership.ts';
import { restore } from '../transaction/restore.ts';
import { chainNames, isTree, joinNames, type Observed } from '../../ports/node-state.ts';
import { baseChainNames, leakedChains } from '../plan/side-by-side.ts';

/**
 * Finishes or rolls back the transaction that an earlier process left open, by the table in `decide.ts`.
 * @param end no retries once it aborts
 * @returns undefined if no transaction was open
 * @throws the failure that would have been retried, after `end` aborted; the transaction stays open
 */
export async function resume(retrying: Ports, end?: AbortSignal): Promise<TransactionResult | undefined> {
  const ports = end ? withoutRetriesAfter(end, retrying) : retrying;
  const { journal, kernel } = ports;
  const { open } = journal;
  if (!open) return undefined;
  const from = await journal.generation(open.from.number, open.from.revision);
  const to = await journal.generation(open.to.number, open.to.revision);
  if ((await journal.countRecovery()) > limits.recoveriesMax) {
    return halted(`${limits.recoveriesMax} processes ended while they tried to recover from a crash`, ports);
  }
  let left: UnfinishedTransaction;
  try {
    left = await observeUnfinished(open, from?.state ?? { families: {}, sysctls: new Map() }, to?.state, kernel);
  } catch (error) {
    await outlived(journal);
    throw error;
  }
  const decision = decide(left);
  if (decision.do === 'halt') return halted(decision.because, ports);
  if (decision.do === 'finish') return restoreCommitted(from, ports);
  if (!from) return halted(`generation ${open.from.number}, to which to roll back, cannot be read`, ports);
  const { because, fault } = waitingFor(journal) ?? {
    because: journal.halted ?? describeCrash(open, left),
    fault: 'process',
  };
  return rollBack(because, from, fault, ports);
}

/** For the history. */
function describeCrash({ flip }: OpenTransaction, { switchStates }: UnfinishedTransaction): string {
  const because = 'the process ended in the middle of the change';
  const wasReverted = flip === 'switch' && switchStates?.nat === 'off';
  return wasReverted ? `${because}; the kernel uses the old rules` : because;
}

/** The same ports, whose clock throws the last reported failure instead of pausing before a retry, once `end` aborts. */
function withoutRetriesAfter(end: AbortSignal, ports: Ports): Ports {
  const { clock } = ports;
  let why: unknown;
  const report: Report = (event, details) => {
    why = details['because'];
    ports.report(event, details);
  };
  const sleep = async (ms: number): Promise<void> => {
    // Shorter pauses wait for packets in flight, not for a retry.
    if (end.aborted && ms >= limits.rollbackIntervalMs) throw new Error(String(why));
    return clock.sleep(ms);
  };
  return { ...ports, report, clock: { ...clock, sleep } };
}

async function halted(because: string, ports: Ports): Promise<TransactionResult> {
  await halt(because, ports);
  return { outcome: { kind: 'held', because, rollback: 'not possible' } };
}

/**
 * Replaces a journal both of whose slots are damaged. The rules in the kernel are trusted: if a stored generation is the one that the
 * kernel falls back to, it becomes active, and a release in probation is rolled back. If the kernel holds no rules, as after a boot, the
 * generation that was last written down as confirmed becomes active. Otherwise the origin of the rules is unknown: nothing changes, and
 * the node stays halted.
 * @param families those that the node has tools for
 * @returns the outcome; undefined if the journal is not lost, or stays lost
 */
export async function rescue(families: readonly Family[], ports: Ports): Promise<Outcome | undefined> {
  const { journal, kernel, report } = ports;
  const { lost } = journal;
  if (lost === undefined) return undefined;
  const observed = await kernel.observe(families);
  const bare = await isBare(observed, ports);
  const found = bare ? lastActive(ports) : await recognised(observed, ports);
  if (!found) return undefined;
  if (!bare && nodePlaneOf(found.state).hasSwitch) await takeBack(found, observed, ports);
  const why = bare ? 'the last confirmed one' : 'the one in the kernel';
  const because = `${lost}: generation ${found.number}, ${why}, is active now; quarantined versions and the values of sysctls before Sluice are lost`;
  await journal.rescue(found, because);
  report('journal-rescued', { generation: found.number, version: found.version, bare });
  return { kind: 'rolled-back', because };
}

function lastActive({ journal }: Pick<Ports, 'journal'>): Generation | undefined {
  for (const one of journal.storedGenerations()) return one.wasActive ? one.generation : undefined;
  return undefined;
}

/** The stored generation whose rules are in the kernel. */
async function recognised(observed: Observed, ports: Ports): Promise<Generation | undefined> {
  for (const { generation } of ports.journal.storedGenerations()) {
    if (await nodePlaneOf(generation.state).shows(observed, generation.state, ports)) return generation;
  }
  return undefined;
}

/** Rolls back a release in probation: turns the switch off, and removes our chains that the generation does not need. */
async function takeBack(found: Generation, observed: Observed, ports: Ports): Promise<void> {
  await switchOff(ports);
  let owned = joinNames(chainNames(found.state), leakedChains(observed, found.state));
  for (const { generation } of ports.journal.storedGenerations()) {
    if (!isTree(generation.state)) continue;
    owned = joinNames(joinNames(owned, chainNames(generation.state)), baseChainNames(found.state, generation.state));
  }
  await restore({ ...found.state, sysctls: new Map() }, owned, ports);
  await ports.kernel.switch?.remove();
}

/** Whether a kernel holds no rules for Services of any program, as after a boot. @param observed its tables */
export async function isBare(observed: Observed, { kernel }: Pick<Ports, 'kernel'>): Promise<boolean> {
  if (countNames(foreignProxyChains(observed, {})) > 0 || (await kernel.nft?.exists())) return false;
  const { ipvs, nftables } = await kernel.proxyTraces();
  return !ipvs && !nftables;
}
