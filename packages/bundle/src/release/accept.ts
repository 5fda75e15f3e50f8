import { type Problem, refusal, warning } from '@sluice/netfilter';
import { releaseLimits } from '../names.ts';
import type { Release } from './release.ts';

/** A release that a node has accepted. */
export interface Accepted {
  readonly cluster: string;
  readonly serial: number;
  /** Of an endpoint update; undefined for the release itself. */
  readonly revision?: number;
  /** The digest of its `SHA256SUMS`. */
  readonly digest: string;
  /** The principals that signed it. */
  readonly signers: readonly string[];
  /** They may sign endpoint updates only, so only endpoints of it may be applied. */
  readonly onlyEndpoints?: true;
  readonly expires?: string;
}

/**
 * The newest releases that a node has accepted. The two serials only increase, and independently: signatures of endpoint keys must not
 * block releases that signers of releases have signed.
 */
export interface Floor {
  /** The newest release with enough signatures. */
  readonly release: Accepted;
  /** The newest endpoint update signed by endpoint keys only, if that is newer. */
  readonly update?: Accepted;
}

/** The state of a node that decides whether it accepts a release. */
interface AcceptanceState {
  readonly node: string;
  /** The cluster in its config. */
  readonly cluster?: string | undefined;
  /** The lowest serial that its config accepts. */
  readonly floor: number;
  readonly accepted?: Floor | undefined;
  /** Whether the release's signatures are valid for endpoint updates only. */
  readonly onlyEndpoints?: boolean;
}

/**
 * Decides whether a node accepts a release whose signatures and digests are valid.
 * @param digest of its `SHA256SUMS`
 * @returns why not; undefined when it does
 */
export function refusedRelease(release: Release, digest: string, state: AcceptanceState): Problem | undefined {
  const { node, accepted, onlyEndpoints: isOnlyEndpoints } = state;
  const cluster = state.cluster ?? accepted?.release.cluster;
  if (cluster !== undefined && release.cluster !== cluster)
    return elsewhere(`it is for cluster ${release.cluster}, this node belongs to ${cluster}`);
  if (!Object.hasOwn(release.nodes, node)) return elsewhere(`it has no node ${node}`);
  return (
    (isOnlyEndpoints ? beyondEndpoints(release, accepted?.release) : undefined) ??
    wrongSerial(release, digest, state.floor, (isOnlyEndpoints ? accepted?.update : undefined) ?? accepted?.release)
  );
}

/** An endpoint key cannot introduce a serial, not even for an identical bundle: it could use up serials. */
function beyondEndpoints({ serial, revision }: Release, accepted: Accepted | undefined): Problem | undefined {
  if (revision === undefined) return onlyEndpoints(`release ${serial} is not an endpoint update`);
  if (accepted && serial <= accepted.serial) return undefined;
  return onlyEndpoints(`it updates release ${serial}, which this node has not accepted`);
}

/** The problem of a release signed by endpoint keys only that is not an endpoint update of an accepted release. */
export const onlyEndpoints = (why: string): Problem =>
  refusal(
    'RELEASE_ENDPOINTS_ONLY',
    `Cannot accept the update with signatures of endpoint keys only: ${why}`,
    'Have signers of releases sign it as well (`sluice sign DIR --key FILE --as NAME`), or ship the release before its update: a node without the release, such as a new one, accepts no update of it',
  );

/** @param accepted the release that it must be newer than */
function wrongSerial(
  release: Release,
  digest: string,
  floor: number,
  accepted: Accepted | undefined,
): Problem | undefined {
  const { serial, revision = 0 } = release;
  if (serial < floor) return refusedSerial(`serial ${serial} is below the floor ${floor} of sluiced.yaml`);
  if (accepted === undefined) return undefined;
  const { revision: before = 0 } = accepted;
  const [name, had] = [spell(release), spell(accepted)];
  if (serial === accepted.serial && revision === before && digest !== accepted.digest) {
    return refusal(
      'RELEASE_EQUIVOCATION',
      `Cannot accept the release: serial ${name} was accepted with other content (SHA256SUMS ${accepted.digest.slice(0, 16)}, now ${digest.slice(0, 16)})`,
      'Two releases were signed with the same serial: find out by whom and why, then make a new one with a greater serial',
    );
  }
  if (serial < accepted.serial || (serial === accepted.serial && revision < before))
    return refusedSerial(`serial ${name} is older than ${had}, which this node has accepted`);
  if (serial === accepted.serial && revision - before > releaseLimits.serialStepMax)
    return refusedSerial(`serial ${name} is more than ${releaseLimits.serialStepMax} revisions ahead of ${had}`);
  if (serial - accepted.serial > releaseLimits.serialStepMax)
    return refusedSerial(
      `serial ${serial} is more than ${releaseLimits.serialStepMax} ahead of ${accepted.serial}, which this node has accepted`,
    );
  return undefined;
}

/** `42`; of an endpoint update `42, revision 3`. */
const spell = ({ serial, revision }: { readonly serial: number; readonly revision?: number }): string =>
  revision === undefined ? String(serial) : `${serial}, revision ${revision}`;

/**
 * The warning for an expired release. A node keeps its rules all the same.
 * @param now in the form of `expires`, so that byte order is chronological order
 * @returns `RELEASE_EXPIRED`; undefined before that time
 */
export function expired(
  { expires, serial }: { readonly expires?: string; readonly serial: number },
  now: string,
): Problem | undefined {
  if (expires === undefined || now < expires) return undefined;
  return warning(
    'RELEASE_EXPIRED',
    `Release ${serial} expired at ${expires}; its rules stay active`,
    'Ship a newer release; if there is one, find out what holds it back. Check the clock of the node',
  );
}

const refusedSerial = (why: string): Problem =>
  refusal(
    'RELEASE_SERIAL',
    `Cannot accept the release: ${why}`,
    'To roll back, make a new release of the old commit with the next serial, or run `sluiced rollback` on the node',
  );

const elsewhere = (why: string): Problem =>
  refusal(
    'RELEASE_ELSEWHERE',
    `Cannot accept the release: ${why}`,
    'Ship this node a release of its own cluster, made after the node was added; `cluster` and `node` are set in sluiced.yaml',
  );
