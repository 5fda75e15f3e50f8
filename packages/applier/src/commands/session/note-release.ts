import type { Receipt } from '@sluice/bundle';
import type { DiskJournal } from '../../state/journal.ts';
import type { Account } from '../../observe/receipts/account.ts';

/** Remembers the release of a generation, for `sluiced history` and `sluiced rollback`. */
export function noteRelease({ outcome }: Account, release: Receipt['release'], journal: DiskJournal): void {
  const { active, record, notes } = journal;
  if (!release || !active || !['confirmed', 'same', 'partial'].includes(outcome)) return;
  if (notes.serialOf(active.number) === release.serial) return;
  try {
    notes.came(active.number, release.serial, record.kept);
  } catch {
    // A disk that takes no write: the history lacks a serial, and nothing depends on it.
  }
}
