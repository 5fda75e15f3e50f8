import type { BundleFiles } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import { readBundle } from '../../load/git/revision.ts';
import type { openTree } from '../../load/tree.ts';
import { reading, Stopped } from '../failure/failure.ts';

// Does not import what reads manifests: `sluice trace` starts in half the time without it.

/**
 * Reads a bundle from a directory or a Git revision.
 * @param readDirectory `openTree` for a command that reads few files, each at most once
 * @throws Stopped when there is no bundle
 */
export function bundleAt(spec: string, readDirectory?: typeof openTree): BundleFiles {
  const files = reading(spec, () => readBundle(spec, readDirectory));
  if (files instanceof Map) return files;
  throw new Stopped(files as Problem);
}
