import type { BundleFiles, Problem } from '@sluice/bundle';
import { readBundle } from '../load/revision.ts';
import type { openTree } from '../load/tree.ts';
import { reading, Stopped } from './failure.ts';

// Apart from what reads manifests: a command that follows one packet starts in half the time without that.

/**
 * A bundle from a directory or a Git revision.
 * @param readDirectory `openTree` for a command that asks for most files once at most
 * @throws Stopped when there is none
 */
export function bundleAt(spec: string, readDirectory?: typeof openTree): BundleFiles {
  const files = reading(spec, () => readBundle(spec, readDirectory));
  if (files instanceof Map) return files;
  throw new Stopped(files as Problem);
}
