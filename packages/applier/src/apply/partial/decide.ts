import type { Flip, Generation, QuarantinedService, VersionedState } from '../../ports/journal.ts';
import { limits } from '../../limits.ts';
import { sameSettings } from '../endpoints/change-kind.ts';
import { changedServices, isNamed, type NamedState, versionsOf } from './services.ts';
import { bundleWithout, withServicesOf } from './without.ts';

/** A probe that fails although it passed before the release. */
export interface FailedProbe {
  readonly name: string;
  /** The Service that it names. */
  readonly service?: string | undefined;
}

/** A release on probation whose probes fail. */
export interface FailingRelease {
  /** The generation to roll back to, with the newest endpoints. */
  readonly from: Generation;
  /** The release, perhaps without some Services already. */
  readonly bundle: VersionedState;
  readonly flip: Flip;
  /** At least one. */
  readonly failed: readonly FailedProbe[];
  /** What the probes answered, in words. */
  readonly because: string;
}

/** What becomes of it. */
export type PartialDecision =
  /** @property why it is not rolled back by Service */
  | { readonly kind: 'all'; readonly why: string }
  /** These Services return to the old rules, the rest stays on probation. */
  | {
      readonly kind: 'partial';
      readonly bundle: VersionedState;
      readonly services: readonly string[];
      readonly quarantine: readonly QuarantinedService[];
    };

/**
 * Decides which Services of a release are rolled back: those that its failing probes name, if the rest can stay without them. The result
 * follows from the two states and these Services alone.
 */
export function decidePartial({ from, bundle, flip, failed, because }: FailingRelease): PartialDecision {
  const all = (why: string): PartialDecision => ({ kind: 'all', why });
  const [old, next] = [from.state, bundle.state];
  if (!old.nft || !next.nft) return all('single Services can be rolled back in mode nftables alone');
  if (flip !== 'switch' || !sameSettings(old, next)) return all('the release changes more than Services');
  if (!isNamed(old) || !isNamed(next)) return all(`generation ${from.number} does not say which frontend is whose`);
  const nameless = failed.find(({ service }) => service === undefined);
  if (nameless) return all(`probe ${nameless.name} names no Service`);
  const services = [...new Set(failed.flatMap(({ service }) => service ?? []))];
  const changed = changedServices(old, next);
  if (!changed) return all('a frontend differs whose Service is not known');
  const other = services.find((service) => !changed.has(service));
  if (other !== undefined)
    return all(
      bundle.partial?.services.includes(other) === true
        ? `${other} fails with its old rules, too`
        : `the release does not change ${other}`,
    );
  if (services.length === changed.size) return all('every changed Service fails');
  const lacking = services.length + (bundle.partial?.services.length ?? 0);
  if (lacking > limits.partialServicesMax) return all(`more than ${limits.partialServicesMax} Services fail`);
  const state = withServicesOf(next, old, services);
  if ('why' in state) return all(state.why);
  return {
    kind: 'partial',
    bundle: bundleWithout(bundle, { state, services, because }),
    services,
    quarantine: services.map((service) => ({ service, version: badVersion(service, old, next), because })),
  };
}

/**
 * The version of a Service that failed. Where it differs from the old one by endpoints alone, these are what failed; otherwise endpoints
 * that come and go make no other version of it.
 */
function badVersion(service: string, old: NamedState, next: NamedState): string {
  const { form, exact } = versionsOf(service, next);
  return form === versionsOf(service, old).form ? exact : form;
}
