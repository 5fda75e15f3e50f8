import { messageOf } from '../rollout/message.ts';
import type { Generation, Ports } from '../rollout/ports.ts';
import { restore, withDropped } from '../rollout/restore.ts';
import { ownedNames, switchOff, wayBack } from './back.ts';
import { ownedNow } from './clean-up.ts';

/**
 * Makes the kernel hold a generation and writes nothing: for a disk that takes nothing, such as one that became read-only after an
 * error, and for a node that is held and stays so. What a crash left open is taken out of the kernel; the next process that can write
 * finishes it in the journal.
 * @throws what the kernel says against it
 */
export async function load(target: Generation, ports: Ports): Promise<void> {
  const { active, originals } = ports.journal;
  const state = active ? withDropped(target.state, active.state, originals) : target.state;
  await ifPossible(() => switchOff(ports), ports);
  const owned = target === active ? await ownedNames(target, ports) : await ownedNow(ports);
  await restore(wayBack(state, ports), owned, ports);
  await ifPossible(async () => ports.kernel.switch?.remove(), ports);
}

/** Rules that are no trial's ask no set: a tool for sets that fails keeps none of them from a node. */
async function ifPossible(work: () => Promise<void>, { report }: Pick<Ports, 'report'>): Promise<void> {
  try {
    await work();
  } catch (error) {
    report('switch-not-off', { because: messageOf(error) });
  }
}
