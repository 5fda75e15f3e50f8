import type { BundleFiles } from '@sluice/bundle';
import type { Target } from './transaction.ts';

/** What may come while a release is on trial. */
export interface Offers {
  /** Resolves when there may be something new; the same promise until `look`. */
  arrival(): Promise<void>;
  /** The files of a bundle that was not looked at before; undefined: nothing new is complete. */
  look(): Promise<Offered | undefined>;
  /** Whether this process was asked to end: then nobody would watch a trial to its end. Left out: it was not. */
  readonly isEnding?: () => boolean;
}

/** A bundle that arrives. */
export interface Offered {
  readonly files: BundleFiles;
  /** Its signers may say nothing but endpoints. */
  readonly onlyEndpoints: boolean;
}

/** The same for a trial: what arrives is checked for this node. */
export interface ProbationOffers {
  arrival(): Promise<void>;
  /** undefined: nothing new, or nothing that this node may run. */
  take(): Promise<Target | undefined>;
  /** As in `Offers`. */
  readonly isEnding: () => boolean;
}

/** Nobody brings anything. */
export const noOffers: Offers = { arrival: () => new Promise(() => undefined), look: async () => undefined };

/** Waits for `work`, and takes what arrives in the meantime. */
export async function meanwhile<T>(
  work: Promise<T>,
  arrival: () => Promise<void>,
  take: () => Promise<void>,
): Promise<T> {
  // Its failure is thrown by the last line, also when it comes while something is taken.
  const isDone = work.then(
    () => true,
    () => true,
  );
  while (!(await Promise.race([isDone, arrival().then(() => false)]))) await take();
  return work;
}
