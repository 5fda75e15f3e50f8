import type { BundleFiles } from '@sluice/bundle';
import type { AdmittedBundle } from '../admission/admit.ts';
import type { LastEndpointWaits } from '../endpoints/last-endpoint-delay.ts';
import type { Outcome } from '../ports/outcome.ts';
import type { EarlyEndpoints } from './early-endpoints.ts';

/** Which parts of a bundle need not wait for the rest. */
export interface EarlyScope {
  /** Frontends that lose their last endpoint later: the bundle without their Services goes in. */
  readonly pending: LastEndpointWaits['pending'];
  /** The first endpoints of Services: not for keys for endpoints. */
  readonly withFirst: boolean;
  readonly withEndpoints: boolean;
}

/** What early endpoint sync has done of one bundle: each part is tried at most once. */
export interface EarlyTried {
  readonly parts: Set<'split' | 'first' | 'endpoints'>;
  /** The bundle could be split: what waits are single Services. */
  isSplit: boolean;
  /** The outcome of the last part. */
  outcome: Outcome | undefined;
}

/**
 * Carries out the next part of a bundle that need not wait for the rest.
 * @param tried is added to
 * @returns its outcome; then the rest must be admitted again, because names of its chains may be in use. undefined: no part is left
 */
export async function earlyStep(
  early: EarlyEndpoints,
  files: BundleFiles,
  bundle: AdmittedBundle,
  { pending, withFirst, withEndpoints }: EarlyScope,
  tried: EarlyTried,
): Promise<Outcome | undefined> {
  const takes = (part: 'split' | 'first' | 'endpoints', isWanted: boolean): boolean =>
    isWanted && !tried.parts.has(part) && tried.parts.add(part).has(part);
  if (takes('split', pending.length > 0)) {
    const split = await early.withoutPending(files, bundle.version, pending);
    tried.isSplit = split !== undefined;
    tried.outcome = split ?? tried.outcome;
    if (split && split.kind !== 'same') return split;
  }
  const first = takes('first', withFirst) ? await early.firstEndpoints(files, bundle) : undefined;
  const done = first ?? (takes('endpoints', withEndpoints) ? await early.endpoints(bundle) : undefined);
  tried.outcome = done ?? tried.outcome;
  return done;
}
