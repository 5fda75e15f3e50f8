import type { Problem } from '../problem.ts';
import { releaseLimits } from './names.ts';
import type { Release } from './release.ts';

/** A release that a node has accepted. */
export interface Accepted {
  readonly cluster: string;
  readonly serial: number;
  /** Of an update of endpoints; left out for the release itself. */
  readonly revision?: number;
  /** The digest of its `SHA256SUMS`. */
  readonly digest: string;
  /** Who signed it. */
  readonly signers: readonly string[];
  /** They may sign updates of endpoints only, so that nothing else of it may be taken. */
  readonly onlyEndpoints?: true;
  readonly expires?: string;
}

/**
 * How far a node has come. Both only ever go up, and apart from each other: what keys for endpoints sign must not keep out what
 * signers of releases sign.
 */
export interface Floor {
  /** The newest release that enough of them have signed. */
  readonly release: Accepted;
  /** The newest update of it that keys for endpoints alone have signed, where that is newer. */
  readonly update?: Accepted;
}

/** What a node knows before it looks at a release. */
export interface Standpoint {
  readonly node: string;
  /** The cluster that its config names. */
  readonly cluster?: string | undefined;
  /** The lowest serial that its config allows. */
  readonly floor: number;
  readonly accepted?: Floor | undefined;
  /** Whether its signatures are good for endpoints alone. */
  readonly onlyEndpoints?: boolean;
}

/**
 * Whether a node takes a release whose signatures and digests are good.
 * @param digest of its `SHA256SUMS`
 * @returns why not, or nothing
 */
export function refusedRelease(release: Release, digest: string, standpoint: Standpoint): Problem | undefined {
  const { node, accepted, onlyEndpoints: isOnlyEndpoints } = standpoint;
  const cluster = standpoint.cluster ?? accepted?.release.cluster;
  if (cluster !== undefined && release.cluster !== cluster)
    return elsewhere(`it is for cluster ${release.cluster}, this node belongs to ${cluster}`);
  if (!Object.hasOwn(release.nodes, node)) return elsewhere(`it has no node ${node}`);
  return (
    (isOnlyEndpoints ? beyondEndpoints(release, accepted?.release) : undefined) ??
    wrongSerial(
      release,
      digest,
      standpoint.floor,
      (isOnlyEndpoints ? accepted?.update : undefined) ?? accepted?.release,
    )
  );
}

/** A key for endpoints brings no release, not even one with the content of another: it could use up serials. */
function beyondEndpoints({ serial, revision }: Release, accepted: Accepted | undefined): Problem | undefined {
  if (revision === undefined) return onlyEndpoints(`release ${serial} is no update of endpoints`);
  if (accepted && serial <= accepted.serial) return undefined;
  return onlyEndpoints(`it updates release ${serial}, which this node has not accepted`);
}

/** Why what keys for endpoints have signed is not taken. */
export function onlyEndpoints(why: string): Problem {
  return {
    code: 'RELEASE_ENDPOINTS_ONLY',
    level: 'error',
    message: `Cannot take it by the signatures of keys for endpoints alone: ${why}`,
    hint: 'A node that does not run the release yet, such as a new one, takes nothing of its updates: let signers of releases sign it, too (`sluice sign DIR --key FILE --as NAME`), or ship the release first and its update later',
  };
}

/** @param accepted what it must be newer than */
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
    return {
      code: 'RELEASE_EQUIVOCATION',
      level: 'error',
      message: `Cannot take the release: serial ${name} was accepted with other content (SHA256SUMS ${accepted.digest.slice(0, 16)}, now ${digest.slice(0, 16)})`,
      hint: 'Somebody signed two releases with one serial: find out who and why, then make a new one with a greater serial',
    };
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

/** `42`; of an update of endpoints `42, revision 3`. */
const spell = ({ serial, revision }: { readonly serial: number; readonly revision?: number }): string =>
  revision === undefined ? String(serial) : `${serial}, revision ${revision}`;

/**
 * What is said of a release that is past its time. A node keeps its rules all the same.
 * @param now in the form of `expires`, so that byte order is the order of time
 * @returns `RELEASE_EXPIRED`, or nothing while it is not
 */
export function expired(
  { expires, serial }: { readonly expires?: string; readonly serial: number },
  now: string,
): Problem | undefined {
  if (expires === undefined || now < expires) return undefined;
  return {
    code: 'RELEASE_EXPIRED',
    level: 'warning',
    message: `Cannot call release ${serial} current: it expired at ${expires}; its rules stay`,
    hint: 'Ship a newer release; if there is one, find out what holds it back. Check the clock of the node',
  };
}

function refusedSerial(why: string): Problem {
  return {
    code: 'RELEASE_SERIAL',
    level: 'error',
    message: `Cannot take the release: ${why}`,
    hint: 'To go back, make a new release of the old commit with the next serial, or run `sluiced rollback` on the node',
  };
}

function elsewhere(why: string): Problem {
  return {
    code: 'RELEASE_ELSEWHERE',
    level: 'error',
    message: `Cannot take the release: ${why}`,
    hint: 'Ship this node a release of its own cluster, made after the node was added; `cluster` and `node` are set in sluiced.yaml',
  };
}
