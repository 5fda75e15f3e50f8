import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { clusterFile, fileDigest, isReleaseFile, type Problem, readSums, releaseFile } from '@sluice/bundle';
import { reading, Stopped } from './failure.ts';

// The directory that a release is written to: whether it may be, and what an earlier one has left there.

/** @throws Stopped when there was a release: a serial that was given must not be given again, and which ones were nobody knows */
export function refuseRest(output: string): void {
  const rest = reading(output, () => (existsSync(output) ? readdirSync(output).find(isReleaseFile) : undefined));
  if (rest === undefined) return;
  throw new Stopped({
    code: 'RELEASE_SERIAL',
    level: 'error',
    message: `Cannot choose a serial: ${output} has ${rest}, which a release left there, and no ${releaseFile} that tells its serial`,
    hint: `Bring ${releaseFile} back, or give a serial that is greater than all before with --serial`,
  });
}

/**
 * Whether a write of this release broke off: it has said that it has begun, and `SHA256SUMS` is not there, or not of this release.yaml.
 * That alone says nothing: a person may have brought release.yaml back, or kept nothing else.
 * @param begun what `.sluice-begun` says
 */
export function isHalfWritten(release: string, sums: string | undefined, begun: string | undefined): boolean {
  const named = sums === undefined ? undefined : readSums(sums);
  const isNamed = typeof named === 'object' && named.get(releaseFile) === fileDigest(release);
  return begun !== undefined && !isNamed;
}

/** @throws Stopped when the output is a directory under review, or lies in one: what is reviewed stays without digests and serials */
export function refuseReviewed(spec: string, output: string): void {
  if (existsSync(spec) && `${realPath(output)}/`.startsWith(`${realPath(spec)}/`))
    throw new Stopped(underReview(output, 'the release is made from what is there'));
  const there = reading(output, () => (existsSync(output) ? readdirSync(output) : []));
  if (there.includes(clusterFile) && !there.some(isReleaseFile))
    throw new Stopped(underReview(output, 'it holds a bundle, and no release'));
}

/** A path without links, as far as it is there. */
function realPath(path: string): string {
  const whole = resolve(path);
  try {
    return realpathSync(whole);
  } catch {
    return dirname(whole) === whole ? whole : join(realPath(dirname(whole)), basename(whole));
  }
}

function underReview(output: string, why: string): Problem {
  return {
    code: 'OUTPUT_NOT_A_BUNDLE',
    level: 'error',
    message: `Cannot write the release to ${output}: ${why}`,
    hint: 'Name another directory with -o: what is reviewed stays without digests and serials',
  };
}
