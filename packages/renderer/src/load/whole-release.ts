import {
  fileDigest,
  isProblem,
  isSignatureFile,
  readRelease,
  type Release,
  releaseFile,
  sumsFile,
  sumsMisfit,
  wavesFile,
} from '@sluice/bundle';
import { type Problem, refusal, warning } from '@sluice/netfilter';
import { readReleaseDirectory } from './release.ts';

/** A release whose files match its `SHA256SUMS`. Signatures are not verified. */
export interface WholeRelease {
  readonly release: Release;
  /** Path → text of every file, including those of the release itself. */
  readonly files: ReadonlyMap<string, string>;
}

/**
 * Reads a release with its signatures and its opening.
 * @returns the release, or `RELEASE_INVALID`
 * @throws errors of the file system
 */
export function readWholeRelease(dir: string): WholeRelease | Problem {
  const directory = readReleaseDirectory(dir);
  if ('code' in directory) return directory;
  const { sums, release: text, waves, signatures, openings } = directory;
  const misfit = sumsMisfit(sums, directory.digests) ?? notText(directory.files, directory.digests);
  if (misfit !== undefined) return invalid(dir, `its files do not match SHA256SUMS: ${misfit}`);
  const release = readRelease(text);
  if (isProblem(release)) return release;
  const files = new Map([...directory.files, ...signatures, ...openings, [releaseFile, text], [sumsFile, sums]]);
  if (waves !== undefined) files.set(wavesFile, waves);
  return { release, files };
}

/** Bytes that are not UTF-8 would be changed by the transport. */
function notText(files: ReadonlyMap<string, string>, digests: ReadonlyMap<string, string>): string | undefined {
  const odd = [...files].find(([path, text]) => fileDigest(text) !== digests.get(path));
  return odd && `${odd[0]} is not UTF-8`;
}

/** A warning, where no file is a signature. @param what would be refused @param again what to do once it is signed */
export const withoutSignature = (
  dir: string,
  files: ReadonlyMap<string, string>,
  what: 'archive' | 'release',
  again: string,
): readonly Problem[] =>
  [...files.keys()].some(isSignatureFile)
    ? []
    : [
        warning(
          'RELEASE_UNSIGNED',
          `Cannot find a signature in ${dir}: nodes that require one refuse this ${what}`,
          `Sign the release (\`sluice sign\`), then ${again}`,
        ),
      ];

const invalid = (dir: string, why: string): Problem =>
  refusal(
    'RELEASE_INVALID',
    `Cannot read ${dir} as a release: ${why}`,
    'Fetch the release again; if that does not help, make it again with `sluice release`',
  );
