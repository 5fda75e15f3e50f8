import type { Ports } from '../rollout/ports.ts';
import { otherSluice } from '../rollout/own.ts';
import { restore } from '../rollout/restore.ts';
import { chainNames, familiesOf, joinNames } from '../rollout/state.ts';

/** What a move needs of one store. */
export type StorePorts = Pick<Ports, 'kernel' | 'clock' | 'report' | 'journal' | 'drainMs'>;

/**
 * Puts the confirmed rules into another rule store and takes them out of the one that they are in. In between packets meet both: the
 * kernel translates a connection once, so the second to be asked changes nothing. Mode ipvs and sysctls are of no store and stay.
 *
 * A process that ends before `moved` leaves the old store in use, one that ends behind it the new one; the same call again finishes.
 * @param from the ports with the kernel by the tools of the old store
 * @param to the same by those of the new one
 * @param moved called when the new store holds everything; durable when it returns
 * @throws KernelError, StillDiffers when one of them does not take it
 */
export async function moveStore(from: StorePorts, to: StorePorts, moved: () => Promise<void>): Promise<void> {
  const { active } = from.journal;
  if (!active) return;
  await restore(active.state, chainNames(active.state), to);
  await moved();
  const { families } = active.state;
  // What another program left there, when a move did not end, has names of ours.
  const left = otherSluice(await from.kernel.observe(familiesOf(active.state)), {});
  await restore({ ...active.state, families: {} }, joinNames(chainNames({ families }), left), from);
}
