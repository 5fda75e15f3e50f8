import type { BundleFiles } from '@sluice/bundle';
import type { VersionedState } from '../../ports/journal.ts';

/** Bundles that arrive during probation. */
export interface Offers {
  /** Resolves when there may be a new bundle; the same promise until `look`. */
  arrival(): Promise<void>;
  /** The next new bundle; undefined: none is complete. */
  look(): Promise<Offered | undefined>;
  /** Whether this process was asked to end, so that it cannot finish a probation. Left out: no. */
  readonly isEnding?: () => boolean;
}

/** A bundle that arrives. */
interface Offered {
  readonly files: BundleFiles;
  /** Signed by keys for endpoints, which may change nothing else. */
  readonly onlyEndpoints: boolean;
}

/** The same, with bundles already checked for this node. */
export interface ProbationOffers {
  arrival(): Promise<void>;
  /** undefined: no new bundle, or none that this node may run. */
  take(): Promise<VersionedState | undefined>;
  /** As in `Offers`. */
  readonly isEnding: () => boolean;
}

/** No bundle ever arrives. */
export const noOffers: Offers = { arrival: () => new Promise(() => undefined), look: async () => undefined };

/** Waits for `work`, and calls `take` for each arrival in the meantime. */
export async function meanwhile<T>(
  work: Promise<T>,
  arrival: () => Promise<void>,
  take: () => Promise<void>,
): Promise<T> {
  // Never rejects: a failure of `work` is thrown by the last line, also if it comes during `take`.
  const isDone = work.then(
    () => true,
    () => true,
  );
  while (!(await Promise.race([isDone, arrival().then(() => false)]))) await take();
  return work;
}
