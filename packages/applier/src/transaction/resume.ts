import { limits } from '../limits.ts';
import type { OpenTransaction, Ports } from '../rollout/ports.ts';
import { goBack, hold } from './back.ts';
import { settleOn } from './finish.ts';
import { decide, type Left, look } from './recovery.ts';
import type { Ending } from './transaction.ts';

/**
 * Goes on where the process before this one ended. `recovery.ts` has the table.
 * @returns undefined when nothing was left to do
 */
export async function resume(ports: Ports): Promise<Ending | undefined> {
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
  return goBack(whyLeft(open, left), from, 'process', ports);
}

/** For the history: what ended the change. */
function whyLeft({ flip }: OpenTransaction, { lamps }: Left): string {
  const because = 'the process ended in the middle of the change';
  const wasReverted = flip === 'switch' && lamps?.nat === 'off';
  return wasReverted ? `${because}; the kernel goes by the old rules` : because;
}

async function held(because: string, ports: Ports): Promise<Ending> {
  await hold(because, ports);
  return { outcome: { kind: 'held', because, rollback: 'not possible' } };
}
