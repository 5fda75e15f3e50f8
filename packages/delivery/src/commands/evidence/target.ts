import {
  endpointsNamespace,
  fileDigest,
  type WavesOpening,
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
import { type Problem, refusal } from '@sluice/netfilter';
import type { RolloutTarget } from '../../fleet/fleet.ts';
import { readReleaseDirectory } from '@sluice/renderer/load/release.ts';
import { orStop, reading, Stopped } from '@sluice/renderer/commands/failure/failure.ts';

/** A release with the number of its open waves. */
export interface StagedRelease {
  readonly release: Release;
  readonly digest: string;
  /** Empty when all nodes apply the release at once. */
  readonly waves: readonly Wave[];
  readonly opening: WavesOpening;
  /** An endpoint update signed by endpoint keys alone; the signatures are not verified. */
  readonly onlyEndpoints: boolean;
}

/**
 * Reads a release and checks its files against `SHA256SUMS`. Signatures are not verified: nodes do that.
 * @throws Stopped when the directory is not a valid release
 */
export function stagedRelease(dir: string): StagedRelease {
  const directory = orStop(reading(dir, () => readReleaseDirectory(dir)));
  const misfit = sumsMisfit(directory.sums, directory.digests);
  if (misfit !== undefined) throw new Stopped(notWhole(dir, misfit));
  const release = orStop(readRelease(directory.release));
  const waves = directory.waves === undefined ? [] : orStop(readWaves(directory.waves));
  const digest = fileDigest(directory.sums);
  const opening = directory.opening === undefined ? undefined : orStop(readOpening(directory.opening));
  // An opening of another release does not count.
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

/** The release to compare a fleet with. */
export function targetOf({ release, digest, waves, opening }: StagedRelease): RolloutTarget {
  const { cluster, serial, nodes } = release;
  return { cluster, serial, digest, nodes: Object.keys(nodes), waves, open: opening.open };
}

const notWhole = (dir: string, why: string): Problem =>
  refusal(
    'RELEASE_INVALID',
    `Cannot use ${dir}: its files do not match SHA256SUMS: ${why}`,
    'Fetch the release again, or make it again',
  );
