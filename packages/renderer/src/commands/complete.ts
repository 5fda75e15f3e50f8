import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import {
  type BundleFiles,
  completeFile,
  completeText,
  fileDigest,
  type Problem,
  releaseFile,
  sumsFile,
  sumsMisfit,
  wavesFile,
} from '@sluice/bundle';
import { readText } from '../load/tree.ts';
import { reading } from './failure.ts';

/**
 * Whether a node would take the directory for a bundle (README.md of the format, "When is a directory a bundle?"). In a Git work
 * tree `.sluice-complete` may be missing: there the node reads the tree of HEAD.
 * @param files all files of the directory
 * @returns a warning, or nothing
 */
export function incomplete(dir: string, files: BundleFiles): readonly Problem[] {
  const sums = reading(dir, () => readText(dir, sumsFile));
  if (sums !== undefined) {
    const misfit = unlikeSums(dir, sums, files);
    return misfit === undefined ? [] : [warning(dir, `its files are not those of ${sumsFile}: ${misfit}`)];
  }
  const complete = reading(dir, () => readText(dir, completeFile));
  if (complete === completeText(digestsOf(files))) return [];
  if (complete !== undefined) return [warning(dir, `its files are not those that ${completeFile} was written for`)];
  return isInWorkTree(resolve(dir))
    ? []
    : [warning(dir, `it has no ${completeFile}, so a write may have been interrupted`)];
}

/**
 * Holds files against the `SHA256SUMS` of a directory, with what its release has besides them.
 * @returns what does not fit, in words
 */
export function unlikeSums(dir: string, sums: string, files: BundleFiles): string | undefined {
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

function warning(dir: string, why: string): Problem {
  return {
    code: 'BUNDLE_INCOMPLETE',
    level: 'warning',
    message: `Cannot take ${dir} for a complete bundle: ${why}`,
    hint: 'What is shown is what is there; a node refuses it until `sluice render` has written it again',
  };
}
