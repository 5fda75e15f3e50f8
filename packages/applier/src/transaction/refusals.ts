import { onlyEndpoints, type Problem } from '@sluice/bundle';
import { limits } from '../limits.ts';
import type { Ports, Refusal } from '../rollout/ports.ts';
import type { Change } from './transaction.ts';

/** Whether a problem may be gone when the module of mode ipvs is loaded. */
export function lacksModule({ code, message }: Problem): boolean {
  return code === 'NODE_SYSCTL_FIXED' && message.includes(' net.ipv4.vs.');
}

export function withoutIpvs(because: string): Problem {
  return {
    code: 'NODE_LACKS_NEED',
    level: 'error',
    message: `Cannot apply a profile in mode ipvs: the kernel of the node does not have it: ${because}`,
    hint: 'Load the module (`modprobe ip_vs`), or give the node a profile in mode iptables',
  };
}

export function quarantined(version: string, because: string): Refusal {
  const problem: Problem = {
    code: 'BUNDLE_QUARANTINED',
    level: 'error',
    message: `Cannot apply version ${version} again: ${because}`,
    hint: 'Ship another version, or run `sluiced apply DIR --node NAME` by hand to try this one again',
  };
  return { problems: [problem] };
}

/**
 * Whether a change is more than keys for endpoints may bring. What a Service is like that had no endpoint nobody can compare, so they do
 * not bring it the first one. So they do not take its last one either: the node would be without the Service until people sign, where
 * otherwise the next pod is an endpoint in the place of another.
 */
export function isMore({ changeKind, first = [], last = [] }: Pick<Change, 'changeKind' | 'first' | 'last'>): boolean {
  return changeKind === 'release' || first.length > 0 || last.length > 0;
}

/**
 * Releases that fail one after the other are tried less and less often from the third on, and no more than some in an hour: each puts the node at risk.
 * Endpoints do not wait for that. Of the releases that wait only the newest is ever tried: the directory holds no other.
 * @param most releases in an hour
 * @param isUrgent its signers say that it must not wait for what became of others
 */
export function mustWait(
  { changeKind, bundle }: Pick<Change, 'changeKind' | 'bundle'>,
  most: number,
  { journal, clock }: Pick<Ports, 'journal' | 'clock'>,
  isUrgent = false,
): Refusal | undefined {
  if (changeKind !== 'release') return undefined;
  const { notBeforeMs } = journal;
  if (!isUrgent && clock.now() < notBeforeMs) return tooEarly(bundle.version, notBeforeMs);
  return journal.releasesSince(clock.now() - limits.hourMs) < most ? undefined : tooMany(bundle.version, most);
}

/** Endpoints that what stands may take are in by then. */
export function beyondEndpoints(version: string): Refusal {
  const why = `version ${version} changes more than endpoints of Services that the node goes on serving, or more of them than goes without a trial`;
  return { problems: [onlyEndpoints(why)] };
}

function tooEarly(version: string, untilMs: number): Refusal {
  const until = new Date(untilMs).toISOString().replace(/\.\d+Z$/, 'Z');
  const problem: Problem = {
    code: 'BUNDLE_QUARANTINED',
    level: 'error',
    message: `Cannot apply version ${version} yet: more than ${limits.failuresAtOnce} releases in a row failed; it waits until ${until}`,
    hint: 'Updates of endpoints do not wait, nor does a release that is signed as urgent (`sluice release --urgent`). To try it now, run `sluiced apply DIR --node NAME` by hand',
  };
  return { problems: [problem] };
}

function tooMany(version: string, most: number): Refusal {
  const problem: Problem = {
    code: 'RELEASES_TOO_MANY',
    level: 'error',
    message: `Cannot apply version ${version} yet: ${most} releases were tried within an hour, as many as this node takes`,
    hint: 'The newest one is taken when the hour is over; updates of endpoints do not wait. Raise `releases.perHour` in sluiced.yaml, or run `sluiced apply DIR --node NAME` by hand',
  };
  return { problems: [problem] };
}
