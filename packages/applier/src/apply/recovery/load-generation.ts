import type { Generation } from '../../ports/journal.ts';
import { orReport } from '../report-failure.ts';
import type { Ports } from '../../ports/ports.ts';
import { restore, withDropped } from '../transaction/restore.ts';
import { ownedNames, switchOff, rollbackState } from '../transaction/roll-back.ts';
import { ownedNow } from '../transaction/clean-up.ts';

/**
 * Makes the kernel hold a generation without writing to the disk: for a read-only or full disk, and for a node that stays halted. An open
 * transaction is removed from the kernel; the next process that can write closes it in the journal.
 * @throws KernelError, StillDiffers if the kernel does not take it
 */
export async function load(target: Generation, ports: Ports): Promise<void> {
  const { active, originals } = ports.journal;
  const state = active ? withDropped(target.state, active.state, originals) : target.state;
  // Outside of probation no rule uses a set, so a failing ipset must not prevent the rules from being loaded.
  await orReport('switch-not-off', ports, () => switchOff(ports));
  const owned = target === active ? await ownedNames(target, ports) : await ownedNow(ports);
  await restore(rollbackState(state, ports), owned, ports);
  await orReport('switch-not-off', ports, () => ports.kernel.switch?.remove());
}
