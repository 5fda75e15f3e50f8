import type { DiskJournal } from '../../state/journal.ts';
import { readConntrackFill } from '../../kernel/sysctl.ts';
import type { NodeMemory } from '../../status/metrics.ts';

/** The journal's figures for metrics. */
export function memoryOf(journal: DiskJournal): NodeMemory {
  return {
    quarantined: () => Object.keys(journal.record.quarantined).length,
    quarantinedServices: () => journal.quarantinedServices.length,
    conntrack: readConntrackFill,
    notBeforeMs: () => journal.notBeforeMs,
    standsSinceMs: () => {
      const { active, record } = journal;
      const came = record.history.findLast(({ generation, what }) => generation === active?.number && stands.has(what));
      return came && Date.parse(came.at);
    },
  };
}

/** History entries after which a generation, or a revision of it, is active. */
const stands: ReadonlySet<string> = new Set(['first-run', 'confirmed', 'updated', 'chosen', 'fell-back']);
