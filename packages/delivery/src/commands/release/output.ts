import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import {
  clusterFile,
  fileDigest,
  isProblem,
  isReleaseFile,
  readRelease,
  readSums,
  type Release,
  releaseFile,
  sumsFile,
} from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import { begunFile, begunText, type ReleaseTexts } from '../../emit/release.ts';
import { readText } from '@sluice/renderer/load/tree.ts';
import { reading, Stopped } from '@sluice/renderer/commands/failure/failure.ts';

// Checks of the output directory: whether a release may be written there, and what an earlier one left.

/** What the output directory holds of an earlier release. */
export interface FoundRelease {
  /** Of release.yaml. */
  readonly text: string | undefined;
  readonly previous: Release | undefined;
  readonly isHalfWritten: boolean;
  /** Whether it is exactly this release, or its interrupted write. */
  readonly holds: (texts: ReleaseTexts) => boolean;
}

/** @throws Stopped when its release.yaml cannot be read */
export function readFound(output: string): FoundRelease {
  const [text, sums, begun] = reading(output, () => [
    readText(output, releaseFile),
    readText(output, sumsFile),
    readText(output, begunFile),
  ]);
  const previous = text === undefined ? undefined : readRelease(text);
  if (previous && isProblem(previous)) throw new Stopped(previous);
  return {
    text,
    previous,
    isHalfWritten: text !== undefined && isHalfWritten(text, sums, begun),
    holds: (texts) => texts.sums === sums || begunText(texts.sums) === begun,
  };
}

/** @throws Stopped when remains of a release are there: a serial must not be reused, and without release.yaml it is not known */
export function refuseRest(output: string): void {
  const rest = reading(output, () => (existsSync(output) ? readdirSync(output).find(isReleaseFile) : undefined));
  if (rest === undefined) return;
  throw new Stopped({
    code: 'RELEASE_SERIAL',
    level: 'error',
    message: `Cannot choose a serial: ${output} contains ${rest} of a release, but no ${releaseFile} with its serial`,
    hint: `Restore ${releaseFile}, or pass a serial greater than all earlier ones with --serial`,
  });
}

/**
 * Whether a write of this release was interrupted: `.sluice-begun` is there, and `SHA256SUMS` is missing or does not match this
 * release.yaml. Either alone is not enough: an operator may have restored release.yaml, or kept nothing else.
 * @param begun the content of `.sluice-begun`
 */
function isHalfWritten(release: string, sums: string | undefined, begun: string | undefined): boolean {
  const named = sums === undefined ? undefined : readSums(sums);
  const isNamed = typeof named === 'object' && named.get(releaseFile) === fileDigest(release);
  return begun !== undefined && !isNamed;
}

/** @throws Stopped when the output is, or is in, the reviewed bundle directory, which must not contain digests and serials */
export function refuseReviewed(spec: string, output: string): void {
  if (existsSync(spec) && `${realPath(output)}/`.startsWith(`${realPath(spec)}/`))
    throw new Stopped(underReview(output, 'it is the directory of the bundle to release'));
  const there = reading(output, () => (existsSync(output) ? readdirSync(output) : []));
  if (there.includes(clusterFile) && !there.some(isReleaseFile))
    throw new Stopped(underReview(output, 'it contains a bundle that is not a release'));
}

/** Resolves the links of a path, as far as it exists. */
function realPath(path: string): string {
  const whole = resolve(path);
  try {
    return realpathSync(whole);
  } catch {
    return dirname(whole) === whole ? whole : join(realPath(dirname(whole)), basename(whole));
  }
}

const underReview = (output: string, why: string): Problem =>
  refusal(
    'OUTPUT_NOT_A_BUNDLE',
    `Cannot write the release to ${output}: ${why}`,
    'Choose another directory with -o: the reviewed bundle must not contain digests and serials',
  );
