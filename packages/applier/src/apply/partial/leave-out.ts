import { limits } from '../../limits.ts';
import { overlayEndpoints, type OverlayOptions } from '../endpoints/overlay-endpoints.ts';
import type { Generation, QuarantinedService, VersionedState } from '../../ports/journal.ts';
import { isNamed, isSameService, type NamedState, versionsOf } from './services.ts';
import { bundleWithout, type NotPossible, withServicesOf } from './without.ts';

/**
 * A bundle without the Services whose version in it is quarantined: these stay as the node has them, with the newest endpoints as far as an
 * endpoint update may bring them. Another version of such a Service is part of the bundle.
 * @returns the bundle itself if there is none; why it cannot be done
 */
export function leaveOut(
  bundle: VersionedState,
  active: Generation | undefined,
  quarantined: readonly QuarantinedService[],
  options: Pick<OverlayOptions, 'declined'> = {},
): VersionedState | NotPossible {
  if (quarantined.length === 0 || !active) return bundle;
  const { state } = bundle;
  // In another mode the node has nothing that these Services could stay as.
  if (!isNamed(state) || !isNamed(active.state)) return bundle;
  const now = overlayEndpoints(active.state, state, options) as NamedState;
  const found = quarantined.filter((one) => isVersionOf(one, state) && !isSameService(one.service, now, state));
  if (found.length === 0) return bundle;
  const services = [...new Set(found.map(({ service }) => service))];
  if (services.length > limits.partialServicesMax)
    return { why: `more than ${limits.partialServicesMax} of its Services are quarantined` };
  const without = withServicesOf(state, now, services);
  if ('why' in without) return without;
  const reasons = [...new Set(found.map(({ because }) => because))];
  return bundleWithout(bundle, { state: without, services, because: reasons.join('; ') });
}

/** Whether a state has the quarantined version of a Service. */
function isVersionOf({ service, version }: QuarantinedService, state: NamedState): boolean {
  const { form, exact } = versionsOf(service, state);
  return version === form || version === exact;
}

/**
 * The quarantined Services after a generation was confirmed: it may have the quarantined version of a Service, which was tried again and
 * passed.
 * @param more that failed during its probation
 */
export function quarantinedAfter(
  quarantined: readonly QuarantinedService[],
  more: readonly QuarantinedService[],
  { state }: VersionedState,
): readonly QuarantinedService[] {
  const known = new Set(more.map(({ service, version }) => `${service} ${version}`));
  const others = quarantined.filter(({ service, version }) => !known.has(`${service} ${version}`));
  const stay = isNamed(state) ? others.filter((one) => !isVersionOf(one, state)) : others;
  return [...stay, ...more];
}
