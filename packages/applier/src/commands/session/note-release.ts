import type { Receipt } from '@sluice/bundle';
import { WaveMemory } from '../../inbox/wave-memory.ts';
import type { DiskJournal } from '../../state/journal.ts';
import type { Account } from '../../observe/receipts/account.ts';

/**
 * Remembers the release of a generation, for `sluiced history` and `sluiced rollback`, and that no closing of a wave takes it away.
 * @param state the state directory
 */
export function noteRelease(
  { outcome }: Account,
  release: Receipt['release'],
  journal: DiskJournal,
  state: string,
): void {
  const { active, record, notes } = journal;
  if (!release || !active || !['confirmed', 'same', 'partial'].includes(outcome)) return;
  try {
    new WaveMemory(state).take(release.digest);
    if (notes.serialOf(active.number) !== release.serial) notes.came(active.number, release.serial, record.kept);
  } catch {
    // A disk that takes no write: the history lacks a serial. A release whose wave is closed then is found in the kernel by the next look.
  }
}
