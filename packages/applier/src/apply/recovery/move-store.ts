import type { Ports } from '../../ports/ports.ts';
import { foreignSluiceChains } from '../plan/ownership.ts';
import { restore } from '../transaction/restore.ts';
import { chainNames, familiesOf, joinNames } from '../../ports/node-state.ts';

/** What a move needs of one store. */
export type StorePorts = Pick<Ports, 'kernel' | 'clock' | 'report' | 'journal' | 'drainMs'>;

/**
 * Moves the rules of the active generation to the other rule store (iptables-legacy, iptables-nft). In between, packets meet both: the
 * kernel translates a connection once, so the second table changes nothing. Mode ipvs and sysctls do not belong to a store.
 *
 * A process that ends before `moved` leaves the old store in use, one that ends after it the new one; a repeated call finishes the move.
 * @param from the ports, with the kernel by the tools of the old store
 * @param to the same, by the tools of the new store
 * @param moved called when the new store holds all rules; durable when it returns
 * @throws KernelError, StillDiffers if a store does not take its rules
 */
export async function moveStore(from: StorePorts, to: StorePorts, moved: () => Promise<void>): Promise<void> {
  const { active } = from.journal;
  if (!active) return;
  await restore(active.state, chainNames(active.state), to);
  await moved();
  const { families } = active.state;
  // An earlier move that was interrupted may have left chains of another generation there.
  const left = foreignSluiceChains(await from.kernel.observe(familiesOf(active.state)), {});
  await restore({ ...active.state, families: {} }, joinNames(chainNames({ families }), left), from);
}
