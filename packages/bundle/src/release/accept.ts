import type { Problem } from '../problem.ts';
import { releaseLimits } from './names.ts';
import type { Release } from './release.ts';

/** The newest release that a node has accepted. It only ever goes up. */
export interface Accepted {
  readonly cluster: string;
  readonly serial: number;
  /** The digest of its `SHA256SUMS`. */
  readonly digest: string;
  /** Who signed it. */
  readonly signers: readonly string[];
  readonly expires?: string;
}

/** What a node knows before it looks at a release. */
export interface Standpoint {
  readonly node: string;
  /** The cluster that its config names. */
  readonly cluster?: string | undefined;
  /** The lowest serial that its config allows. */
  readonly floor: number;
  readonly accepted?: Accepted | undefined;
}

/**
 * Whether a node takes a release whose signatures and digests are good.
 * @param digest of its `SHA256SUMS`
 * @returns why not, or nothing
 */
export function refusedRelease(release: Release, digest: string, standpoint: Standpoint): Problem | undefined {
  const { node, accepted } = standpoint;
  const cluster = standpoint.cluster ?? accepted?.cluster;
  if (cluster !== undefined && release.cluster !== cluster)
    return elsewhere(`it is for cluster ${release.cluster}, this node belongs to ${cluster}`);
  if (!Object.hasOwn(release.nodes, node)) return elsewhere(`it has no node ${node}`);
  return wrongSerial(release.serial, digest, standpoint);
}

function wrongSerial(serial: number, digest: string, { accepted, floor }: Standpoint): Problem | undefined {
  if (serial < floor) return refusedSerial(`serial ${serial} is below the floor ${floor} of sluiced.yaml`);
  if (accepted === undefined) return undefined;
  if (serial === accepted.serial && digest !== accepted.digest) {
    return {
      code: 'RELEASE_EQUIVOCATION',
      level: 'error',
      message: `Cannot take the release: serial ${serial} was accepted with other content (SHA256SUMS ${accepted.digest.slice(0, 16)}, now ${digest.slice(0, 16)})`,
      hint: 'Somebody signed two releases with one serial: find out who and why, then make a new one with a greater serial',
    };
  }
  if (serial < accepted.serial)
    return refusedSerial(`serial ${serial} is older than ${accepted.serial}, which this node has accepted`);
  if (serial - accepted.serial > releaseLimits.serialStepMax)
    return refusedSerial(
      `serial ${serial} is more than ${releaseLimits.serialStepMax} ahead of ${accepted.serial}, which this node has accepted`,
    );
  return undefined;
}

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
