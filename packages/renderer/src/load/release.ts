import { existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs';
import {
  bundleLimits,
  fileDigest,
  isSignatureFile,
  openingFile,
  openingSignatureFile,
  readPath,
  releaseFile,
  releaseLimits,
  sumsFile,
  wavesFile,
} from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import { readRegular } from '@sluice/transport/files/regular.ts';
import { listTree } from './tree.ts';

/** The files of a release directory, not parsed and not verified. */
export interface ReleaseDirectory {
  readonly sums: string;
  readonly release: string;
  /** `waves.yaml`, for a release with waves. */
  readonly waves: string | undefined;
  /** `waves-open.yaml`, which `SHA256SUMS` does not cover. */
  readonly opening: string | undefined;
  /** File → text of `waves-open.yaml` and its signature, if they exist; bytes as Latin-1. */
  readonly openings: ReadonlyMap<string, string>;
  /** File → text. */
  readonly signatures: ReadonlyMap<string, string>;
  /** Path → text of the bundle's files. */
  readonly files: ReadonlyMap<string, string>;
  /** Path → digest of the bytes of the bundle's files, of release.yaml and of waves.yaml. */
  readonly digests: ReadonlyMap<string, string>;
}

/**
 * Reads a release.
 * @returns the release, or `RELEASE_INVALID` when a file is missing or foreign
 */
export function readReleaseDirectory(dir: string): ReleaseDirectory | Problem {
  const files = new Map<string, string>();
  const digests = new Map<string, string>();
  for (const path of listTree(dir)) {
    const bytes = readPath(path) === undefined ? undefined : readBytes(dir, path);
    if (bytes === undefined) return noRelease(dir, `${path} is not a file of a release`);
    files.set(path, bytes.toString('utf8'));
    digests.set(path, fileDigest(bytes));
  }
  const [sums, release] = [readBytes(dir, sumsFile), readBytes(dir, releaseFile)];
  if (sums === undefined) return noRelease(dir, existsSync(dir) ? `${sumsFile} is missing` : 'no such directory');
  if (release === undefined) return noRelease(dir, `${releaseFile} is missing`);
  digests.set(releaseFile, fileDigest(release));
  const waves = readBytes(dir, wavesFile);
  if (waves !== undefined) digests.set(wavesFile, fileDigest(waves));
  const signatures = new Map<string, string>();
  for (const name of readdirSync(dir).filter(isSignatureFile)) {
    const bytes = readBytes(dir, name);
    if (bytes === undefined) return noRelease(dir, `${name} is not a valid signature file`);
    signatures.set(name, bytes.toString('latin1'));
  }
  const openings = new Map<string, string>();
  for (const name of [openingFile, openingSignatureFile]) {
    const bytes = readRegular(`${dir}/${name}`, releaseLimits.signatureBytesMax);
    if (typeof bytes === 'string') return noRelease(dir, `${name} is not valid: ${bytes}`);
    if (bytes !== undefined) openings.set(name, bytes.toString('latin1'));
  }
  return {
    sums: sums.toString('latin1'),
    release: release.toString('utf8'),
    waves: waves?.toString('utf8'),
    opening: openings.get(openingFile),
    openings,
    signatures,
    files,
    digests,
  };
}

/**
 * The bytes of a regular file within the limit of a bundle's files; links are not followed.
 * @returns undefined for any other
 */
export function readBytes(dir: string, path: string): Buffer | undefined {
  const stats = lstatSync(`${dir}/${path}`, { throwIfNoEntry: false });
  if (!stats?.isFile() || stats.size > bundleLimits.fileBytesMax) return undefined;
  return readFileSync(`${dir}/${path}`);
}

const noRelease = (dir: string, why: string): Problem =>
  refusal(
    'RELEASE_INVALID',
    `Cannot read ${dir} as a release: ${why}`,
    'Pass a directory written by `sluice release`, without other files in it',
  );
