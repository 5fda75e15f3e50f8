import { onlyEndpoints } from '@sluice/bundle';
import { compareText, refusal, serviceChanges } from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import type { VersionedState } from '../../ports/journal.ts';
import type { Ports } from '../../ports/ports.ts';
import type { Refusal } from '../../ports/refusal.ts';
import type { PlannedChange } from '../transaction/planned-change.ts';

/** Why a bundle is quarantined, all of it or without the Services that were left out of it; undefined: it is not. */
export function whyQuarantined(
  { version, partial }: Pick<VersionedState, 'version' | 'partial'>,
  { journal }: Pick<Ports, 'journal'>,
): string | undefined {
  return journal.quarantined(version) ?? (partial && journal.quarantined(partial.of));
}

export function quarantined(version: string, because: string): Refusal {
  const problem = refusal(
    'BUNDLE_QUARANTINED',
    `Cannot apply version ${version} again: ${because}`,
    'Publish another version, or retry this one with `sluiced apply DIR --node NAME`',
  );
  return { problems: [problem] };
}

/**
 * Whether a change is more than keys for endpoints may make. A Service without endpoints has no rules to compare with, so its first
 * endpoint needs a release. These keys may not remove the last endpoint either: the Service would stay down until a release is signed,
 * whereas a last endpoint that stays is replaced by the next pod.
 */
export function isMore(change: Pick<PlannedChange, 'changeKind' | 'first' | 'last'>): boolean {
  const { changeKind, first = [], last = [] } = change;
  return changeKind === 'release' || first.length > 0 || last.length > 0;
}

/**
 * Bounds how often releases may fail, because each failure moves packets to bad rules and back: after `limits.failuresAtOnce` failures in
 * a row with a growing back-off, and at most `most` failures per hour. Confirmed releases and endpoint updates are not delayed, however
 * many. Of several waiting releases only the newest is tried: the directory holds no other.
 * @param most failures per hour
 * @param isUrgent signed as urgent: no back-off
 * @returns why it must wait
 */
export function mustWait(
  change: Pick<PlannedChange, 'changeKind' | 'bundle' | 'from'>,
  most: number,
  ports: Pick<Ports, 'journal' | 'clock'>,
  isUrgent = false,
): Refusal | undefined {
  const delay = delayOf(change, most, ports, isUrgent);
  if (delay === undefined) return undefined;
  const { bundle, from } = change;
  const services = changedServices(from, bundle);
  return delay === 'back-off'
    ? tooEarly(bundle.version, ports.journal.notBeforeMs, services)
    : tooMany(bundle.version, most, services);
}

/** What delays a change, without the names of its Services: these take a comparison of two states. @see mustWait */
export function delayOf(
  { changeKind }: Pick<PlannedChange, 'changeKind'>,
  most: number,
  { journal, clock }: Pick<Ports, 'journal' | 'clock'>,
  isUrgent = false,
): 'back-off' | 'limit' | undefined {
  if (changeKind !== 'release') return undefined;
  if (!isUrgent && clock.now() < journal.notBeforeMs) return 'back-off';
  return journal.failuresSince(clock.now() - limits.hourMs) < most ? undefined : 'limit';
}

/** Refuses the rest of a bundle by keys for endpoints, whose allowed endpoints went in before. */
export function beyondEndpoints(version: string): Refusal {
  const why = `version ${version} changes more than the endpoints of served Services, or more of them than an endpoint update may`;
  return { problems: [onlyEndpoints(why)] };
}

/** ` (Services shop/a, shop/b, 68 more)`: what waits, for people; empty where no Service differs. */
function changedServices(from: VersionedState, to: VersionedState): string {
  const changes = serviceChanges(from.state, to.state).map(({ name }) => name);
  const names = [...new Set(changes)].toSorted(compareText);
  const more = names.length > limits.servicesNamedMax ? [`${names.length - limits.servicesNamedMax} more`] : [];
  return names.length === 0 ? '' : ` (Services ${[...names.slice(0, limits.servicesNamedMax), ...more].join(', ')})`;
}

function tooEarly(version: string, untilMs: number, services: string): Refusal {
  const until = new Date(untilMs).toISOString().replace(/\.\d+Z$/, 'Z');
  const problem = refusal(
    'BUNDLE_QUARANTINED',
    `Cannot apply version ${version}${services} yet: more than ${limits.failuresAtOnce} releases in a row failed; back-off until ${until}`,
    'To try it now, run `sluiced apply DIR --node NAME`, or sign the release as urgent (`sluice release --urgent`). Endpoint updates are not delayed',
  );
  return { problems: [problem], isWaiting: true };
}

function tooMany(version: string, most: number, services: string): Refusal {
  const problem = refusal(
    'RELEASES_TOO_MANY',
    `Cannot apply version ${version}${services} yet: ${most} releases failed within an hour, the limit of this node`,
    'The newest release is tried when the hour is over; endpoint updates are not delayed. Read why releases fail in `sluiced history`. Raise `releases.perHour` in sluiced.yaml, or run `sluiced apply DIR --node NAME`',
  );
  return { problems: [problem], isWaiting: true };
}
