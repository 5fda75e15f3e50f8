import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import {
  type BundleFiles,
  completeFile,
  completeText,
  fileDigest,
  releaseFile,
  sumsFile,
  sumsMisfit,
  wavesFile,
} from '@sluice/bundle';
import { type Problem, warning } from '@sluice/netfilter';
import { readText } from '../../load/tree.ts';
import { reading } from '../failure/failure.ts';

/**
 * Checks whether a node accepts the directory as a bundle (README.md of the format, "When is a directory a bundle?"). In a Git
 * work tree `.sluice-complete` may be missing: there the node reads the tree of HEAD.
 * @param dir also a Git revision, which is whole @param files all of it
 * @returns a warning, or nothing
 */
export function incomplete(dir: string, files: BundleFiles): readonly Problem[] {
  if (!existsSync(dir)) return [];
  const sums = reading(dir, () => readText(dir, sumsFile));
  if (sums !== undefined) {
    const misfit = sumsMismatch(dir, sums, files);
    return misfit === undefined ? [] : [unfinished(dir, `its files do not match ${sumsFile}: ${misfit}`)];
  }
  const complete = reading(dir, () => readText(dir, completeFile));
  if (complete === completeText(digestsOf(files))) return [];
  if (complete !== undefined) return [unfinished(dir, `its files do not match ${completeFile}`)];
  return isInWorkTree(resolve(dir))
    ? []
    : [unfinished(dir, `${completeFile} is missing, so a write may have been interrupted`)];
}

/**
 * Compares files, with `release.yaml` and `waves.yaml` of the directory, with its `SHA256SUMS`.
 * @returns the first mismatch, in words; undefined when all match
 */
export function sumsMismatch(dir: string, sums: string, files: BundleFiles): string | undefined {
  const digests = digestsOf(files);
  for (const file of [releaseFile, wavesFile]) {
    const text = reading(dir, () => readText(dir, file));
    if (text !== undefined) digests.set(file, fileDigest(text));
  }
  return sumsMisfit(sums, digests);
}

function digestsOf(files: BundleFiles): Map<string, string> {
  return new Map([...files].map(([path, text]) => [path, fileDigest(text)]));
}

function isInWorkTree(dir: string): boolean {
  return existsSync(join(dir, '.git')) || (dirname(dir) !== dir && isInWorkTree(dirname(dir)));
}

const unfinished = (dir: string, why: string): Problem =>
  warning(
    'BUNDLE_INCOMPLETE',
    `${dir} is not a complete bundle: ${why}`,
    'The files are shown as they are; nodes refuse the bundle until `sluice render` has written it again',
  );
