import { type AdmittedBundle, isRefusal } from '../admission/admit.ts';
import { type LastEndpointWaits, noWaits } from '../endpoints/last-endpoint-delay.ts';
import type { Refusal } from '../ports/refusal.ts';
import type { PlannedChange } from '../transaction/planned-change.ts';
import type { EarlyScope } from './early-endpoints.ts';
import { beyondEndpoints, isMore, quarantined, whyQuarantined } from './gate.ts';
import type { PutRequest, ReconcileParts } from './parts.ts';

/** What may become of a bundle. */
export type Classified =
  /** Nothing of it may go in. */
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  /** Its endpoints may go in, the rest is refused. */
  | {
      readonly kind: 'barred';
      readonly bundle: AdmittedBundle;
      readonly refusal: Refusal;
      readonly scope: EarlyScope;
    }
  /** All of it may go in, some of it perhaps later. */
  | {
      readonly kind: 'change';
      readonly bundle: AdmittedBundle;
      readonly change: PlannedChange;
      readonly waits: LastEndpointWaits;
      readonly scope: EarlyScope;
    };

/**
 * Admits a bundle, and decides what may become of it.
 * @param isRetry after a plan from rules that were out of date: that failure is not the bundle's, although it may be counted
 */
export async function classify(
  { files, byHand, onlyEndpoints, said }: PutRequest,
  { ports, changes, lastEndpointDelay, removals, bounds }: ReconcileParts,
  isRetry = false,
): Promise<Classified> {
  const bundle = await changes.admit(files, byHand);
  const bad = byHand || isRetry || isRefusal(bundle) ? undefined : whyQuarantined(bundle, ports);
  if (isRefusal(bundle) || bad !== undefined) {
    lastEndpointDelay.forget();
    removals.forget();
  }
  if (isRefusal(bundle)) return { kind: 'refused', refusal: bundle };
  const outside = onlyEndpoints ? bounds.refuse(bundle) : undefined;
  if (outside) return { kind: 'refused', refusal: outside };
  if (bad !== undefined) {
    const scope = { waits: noWaits, withFirst: !onlyEndpoints, withEndpoints: true };
    return { kind: 'barred', bundle, refusal: quarantined(bundle.version, bad), scope };
  }
  const change = await changes.decide(bundle, { replacesAll: onlyEndpoints });
  const waits = lastEndpointDelay.waits(byHand || 'problems' in change ? {} : change);
  if ('problems' in change) return { kind: 'refused', refusal: change };
  const isRelease = change.changeKind === 'release';
  if (onlyEndpoints && isMore(change)) {
    const scope = { waits: noWaits, withFirst: false, withEndpoints: true };
    return { kind: 'barred', bundle, refusal: beyondEndpoints(bundle.version), scope };
  }
  const held = removals.refuse(change, byHand || said.acceptsRemoval === true);
  if (held) {
    // Services that keep endpoints are served by the newest ones meanwhile.
    const lasting = { ...waits, pending: change.last ?? [] };
    return {
      kind: 'barred',
      bundle,
      refusal: held,
      scope: { waits: lasting, withFirst: !onlyEndpoints, withEndpoints: true },
    };
  }
  const scope = { waits, withFirst: isRelease && !onlyEndpoints, withEndpoints: isRelease };
  return { kind: 'change', bundle, change, waits, scope };
}
