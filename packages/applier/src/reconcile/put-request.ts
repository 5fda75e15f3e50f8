import type { BundleFiles } from '@sluice/bundle';
import type { Offers } from '../transaction/offers.ts';

/** A bundle that is to be put into the kernel. */
export interface PutRequest {
  readonly files: BundleFiles;
  /** The operator asked for it: a quarantined version is tried again, and nothing is delayed. */
  readonly byHand: boolean;
  /** Source of bundles that arrive during probation. */
  readonly offers: Offers;
  /** It is signed by keys for endpoints, which may change nothing else. */
  readonly onlyEndpoints: boolean;
  /** It is signed as urgent: failures of earlier releases do not delay it. */
  readonly isUrgent: boolean;
}
