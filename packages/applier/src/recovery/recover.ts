import { limits } from '../limits.ts';
import type { OpenTransaction } from '../ports/journal.ts';
import type { Ports, Report } from '../ports/ports.ts';
import { rollBack, halt } from '../transaction/roll-back.ts';
import { restoreCommitted } from '../transaction/finish.ts';
import { decide, observeUnfinished, type UnfinishedTransaction } from './decide.ts';
import type { TransactionResult } from '../transaction/planned-change.ts';

/**
 * Finishes or rolls back the transaction that an earlier process left open, by the table in `recovery.ts`.
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
  const left = await observeUnfinished(open, from?.state ?? { families: {}, sysctls: new Map() }, to?.state, kernel);
  const decision = decide(left);
  if (decision.do === 'halt') return halted(decision.because, ports);
  if (decision.do === 'finish') return restoreCommitted(from, ports);
  if (!from) return halted(`generation ${open.from.number}, to which to roll back, cannot be read`, ports);
  return rollBack(describeCrash(open, left), from, 'process', ports);
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
