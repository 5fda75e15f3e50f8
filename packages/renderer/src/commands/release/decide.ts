import type { Release } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import type { ReleaseTexts } from '../../emit/release.ts';
import type { Ordinal } from '../evidence/ordinal.ts';
import { Stopped } from '../failure/failure.ts';
import type { FoundRelease } from './output.ts';

/** A release with the texts of its files. */
export interface Candidate {
  readonly release: Release;
  readonly texts: ReleaseTexts;
}

/**
 * Chooses which release to write, from what the output directory holds: its serial, or the revision of an endpoint update.
 * @param wanted a serial; `endpoints`: an update of the release in the output directory
 * @param candidateAt makes the release with a serial and revision
 * @throws Stopped when that serial is in use, or when there is nothing to update
 */
export function decideRelease(
  wanted: number | 'auto' | 'endpoints',
  found: FoundRelease,
  candidateAt: (at: Ordinal) => Candidate,
): Candidate {
  return wanted === 'endpoints' ? decideRevision(found, candidateAt) : decideSerial(wanted, found, candidateAt);
}

/**
 * Chooses the revision: that of the output directory plus one, or the same when nothing changed.
 * @throws Stopped when the output directory has no release, or one of another cluster
 */
function decideRevision(found: FoundRelease, candidateAt: (at: Ordinal) => Candidate): Candidate {
  const { previous } = found;
  // An interrupted release was never published, and nodes refuse an update of a release that they do not have.
  if (found.isHalfWritten && previous?.revision === undefined)
    throw new Stopped(nothingToUpdate('the release in the output directory is incomplete'));
  if (previous === undefined) throw new Stopped(nothingToUpdate('the output directory contains no release'));
  const { serial, revision = 0 } = previous;
  const again = revision === 0 ? undefined : candidateAt({ serial, revision });
  if (again && found.holds(again.texts)) return again;
  const next = candidateAt({ serial, revision: revision + 1 });
  refuseOtherCluster(previous, next);
  return next;
}

function nothingToUpdate(why: string): Problem {
  return {
    code: 'RELEASE_SERIAL',
    level: 'error',
    message: `Cannot make an endpoint update: ${why}`,
    hint: 'Make the release first, with --serial; write its updates to the same directory',
  };
}

/**
 * Chooses the serial. A serial is never reused; without changes the release keeps its serial, so running the command again is a no-op.
 * @throws Stopped when the requested serial is already in use
 */
function decideSerial(
  wanted: number | 'auto',
  found: FoundRelease,
  candidateAt: (at: Ordinal) => Candidate,
): Candidate {
  const { previous } = found;
  if (previous === undefined) return candidateAt({ serial: wanted === 'auto' ? 1 : wanted });
  const again = candidateAt({ serial: previous.serial });
  if ((wanted === 'auto' || wanted === previous.serial) && found.holds(again.texts)) return again;
  refuseOtherCluster(previous, again);
  if (wanted === 'auto') return candidateAt({ serial: previous.serial + 1 });
  if (wanted > previous.serial) return candidateAt({ serial: wanted });
  throw new Stopped({
    code: 'RELEASE_SERIAL',
    level: 'error',
    message: `Cannot use serial ${wanted}: the output directory contains release ${previous.serial} with other content`,
    hint: 'Serials must increase, also for a rollback: pass a greater one, or `--serial auto`',
  });
}

function refuseOtherCluster({ cluster: previous }: Release, { release: { cluster } }: Candidate): void {
  if (cluster !== previous) throw new Stopped(otherCluster(previous, cluster));
}

function otherCluster(previous: string, now: string): Problem {
  const message = `Cannot write a release of cluster ${now} over one of cluster ${previous}`;
  return {
    code: 'RELEASE_ELSEWHERE',
    level: 'error',
    message,
    hint: 'Choose another output directory: each cluster has its own serials',
  };
}
