import {
  endpointsNamespace,
  fileDigest,
  isProblem,
  type WavesOpening,
  type Problem,
  readOpening,
  readRelease,
  readSignature,
  readWaves,
  type Release,
  releaseNamespace,
  type SignatureNamespace,
  sumsMisfit,
  type Wave,
} from '@sluice/bundle';
import type { Target } from '../fleet/fleet.ts';
import { readReleaseDirectory } from '../load/release.ts';
import { reading, Stopped } from './failure.ts';

/** A release, with how far it has gone out. */
export interface Staged {
  readonly release: Release;
  readonly digest: string;
  /** None where all nodes take it at once. */
  readonly waves: readonly Wave[];
  readonly opening: WavesOpening;
  /** An update of endpoints with signatures for endpoints and none for releases; whose they are is not asked. */
  readonly onlyEndpoints: boolean;
}

/**
 * Reads a release whose files are what its `SHA256SUMS` says. Who signed it is not asked: nodes do.
 * @throws Stopped when the directory is none
 */
export function stagedRelease(dir: string): Staged {
  const directory = reading(dir, () => readReleaseDirectory(dir));
  if (isProblem(directory)) throw new Stopped(directory);
  const misfit = sumsMisfit(directory.sums, directory.digests);
  if (misfit !== undefined) throw new Stopped(notWhole(dir, misfit));
  const release = orStop(readRelease(directory.release));
  const waves = directory.waves === undefined ? [] : orStop(readWaves(directory.waves));
  const digest = fileDigest(directory.sums);
  const opening = directory.opening === undefined ? undefined : orStop(readOpening(directory.opening));
  // The opening of another release opens nothing of this one.
  return {
    release,
    digest,
    waves,
    opening: opening?.release === digest ? opening : { release: digest, open: 0 },
    onlyEndpoints: release.revision !== undefined && isSignedForEndpointsOnly([...directory.signatures.values()]),
  };
}

function isSignedForEndpointsOnly(signatures: readonly string[]): boolean {
  const isFor = (namespace: SignatureNamespace): boolean =>
    signatures.some((signature) => typeof readSignature(signature, namespace) !== 'string');
  return isFor(endpointsNamespace) && !isFor(releaseNamespace);
}

function orStop<T extends object>(read: T | Problem): T {
  if (isProblem(read)) throw new Stopped(read);
  return read;
}

/** What a fleet is held against. */
export function targetOf({ release, digest, waves, opening }: Staged): Target {
  const { cluster, serial, nodes } = release;
  return { cluster, serial, digest, nodes: Object.keys(nodes), waves, open: opening.open };
}

function notWhole(dir: string, why: string): Problem {
  return {
    code: 'RELEASE_INVALID',
    level: 'error',
    message: `Cannot use ${dir}: its files are not those of SHA256SUMS: ${why}`,
    hint: 'Fetch the release again, or make it again',
  };
}
