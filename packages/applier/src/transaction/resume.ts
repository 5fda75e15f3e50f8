import { limits } from '../limits.ts';
import { messageOf } from '../rollout/message.ts';
import type { Outcome } from '../rollout/outcome.ts';
import { otherSluice } from '../rollout/own.ts';
import type { OpenTransaction, Ports } from '../rollout/ports.ts';
import { restore } from '../rollout/restore.ts';
import { familyNames } from '../rollout/state.ts';
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
  if (!open) return journal.unreadable === undefined ? undefined : fallBack(ports);
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

/** The generation that should stand is damaged on disk: the newest one that can be read takes its place. */
async function fallBack(ports: Ports): Promise<Ending | undefined> {
  const { journal, kernel } = ports;
  const because = `generation ${journal.unreadable} cannot be read`;
  const older = await journal.newestReadable();
  if (!older) return held(`${because}, nor any before it`, ports);
  try {
    const observed = await kernel.observe(familyNames.filter((family) => older.state.families[family]));
    // What the damaged generation had is only known by its names.
    const settled = await restore(older.state, otherSluice(observed, {}), ports);
    await journal.fallBack(older, because);
    const outcome: Outcome = {
      kind: 'rolled-back',
      because: `${because}; generation ${older.number} stands in its place`,
    };
    return { outcome, settled };
  } catch (error) {
    return held(`${because}, and generation ${older.number} cannot be loaded: ${messageOf(error)}`, ports);
  }
}
