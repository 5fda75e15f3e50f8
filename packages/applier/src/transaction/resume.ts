import { limits } from '../limits.ts';
import type { OpenTransaction, Ports, Report } from '../rollout/ports.ts';
import { rollBack, hold } from './back.ts';
import { settleOn } from './finish.ts';
import { decide, type Left, look } from './recovery.ts';
import type { Ending } from './transaction.ts';

/**
 * Goes on where the process before this one ended. `recovery.ts` has the table.
 * @param end once it aborts, what fails is not tried again
 * @returns undefined when nothing was left to do
 * @throws what went wrong, when it is not tried again; the transaction stays open
 */
export async function resume(patient: Ports, end?: AbortSignal): Promise<Ending | undefined> {
  const ports = end ? until(end, patient) : patient;
  const { journal, kernel } = ports;
  const { open } = journal;
  if (!open) return undefined;
  const from = await journal.generation(open.from.number, open.from.revision);
  const to = await journal.generation(open.to.number, open.to.revision);
  if ((await journal.countRecovery()) > limits.recoveriesMax) {
    return held(`${limits.recoveriesMax} processes ended while they tried to finish a change`, ports);
  }
  const left = await look(open, from?.state ?? { families: {}, sysctls: new Map() }, to?.state, kernel);
  const decision = decide(left);
  if (decision.do === 'hold') return held(decision.because, ports);
  if (decision.do === 'finish') return settleOn(from, ports);
  if (!from) return held(`generation ${open.from.number}, the way back, cannot be read`, ports);
  return rollBack(whyLeft(open, left), from, 'process', ports);
}

/** For the history: what ended the change. */
function whyLeft({ flip }: OpenTransaction, { switchStates }: Left): string {
  const because = 'the process ended in the middle of the change';
  const wasReverted = flip === 'switch' && switchStates?.nat === 'off';
  return wasReverted ? `${because}; the kernel goes by the old rules` : because;
}

/** Ports of who has no time to try again once `end` aborts: the pause before that throws why it would be. */
function until(end: AbortSignal, ports: Ports): Ports {
  const { clock } = ports;
  let why: unknown;
  const report: Report = (event, details) => {
    why = details['because'];
    ports.report(event, details);
  };
  const sleep = async (ms: number): Promise<void> => {
    // Shorter pauses are for packets on their way.
    if (end.aborted && ms >= limits.rollbackIntervalMs) throw new Error(String(why));
    return clock.sleep(ms);
  };
  return { ...ports, report, clock: { ...clock, sleep } };
}

async function held(because: string, ports: Ports): Promise<Ending> {
  await hold(because, ports);
  return { outcome: { kind: 'held', because, rollback: 'not possible' } };
}
