import type { LastEndpointDelay } from '../endpoints/last-endpoint-delay.ts';
import type { Ports } from '../../ports/ports.ts';
import type { Changes } from './changes.ts';
import type { EarlyEndpoints } from './early-endpoints.ts';
import type { RemovalHold } from './removal-hold.ts';
import type { EndpointBounds } from './endpoint-bounds.ts';
import type { BundleFiles } from '@sluice/bundle';
import type { Offers } from '../transaction/offers.ts';
import type { RulesKeeper } from '../transaction/verified-answers.ts';

/** What a change is made with. */
export interface ReconcileDependencies {
  readonly ports: Ports;
  readonly changes: Changes;
  readonly early: EarlyEndpoints;
  readonly lastEndpointDelay: LastEndpointDelay;
  readonly removals: RemovalHold;
  readonly bounds: EndpointBounds;
  readonly keeper: RulesKeeper;
  /** Once so many failed within an hour, an operator or the hour decides. */
  readonly releasesPerHour: number;
}

/** A bundle that is to be put into the kernel. */
export interface PutRequest {
  readonly files: BundleFiles;
  /** The operator asked for it: a quarantined version is tried again, and nothing is delayed. */
  readonly byHand: boolean;
  /** Source of bundles that arrive during probation. */
  readonly offers: Offers;
  /** It is signed by keys for endpoints, which may change nothing else. */
  readonly onlyEndpoints: boolean;
  readonly said: SaidByRelease;
}

/** What a release says about itself, in words that are signed with it. */
export interface SaidByRelease {
  /** Failures of earlier releases do not delay it. */
  readonly isUrgent?: boolean;
  /** It may take away most Services. */
  readonly acceptsRemoval?: boolean;
  /** It is signed. */
  readonly release?: object;
  /** With live endpoints: the version of the release itself. */
  readonly version?: string;
  /** Its endpoints alone go in, the first ones of Services too, and what they lose is not bounded: the rest waits. */
  readonly onlyEarly?: true;
}
