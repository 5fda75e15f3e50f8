import type { BundleFiles, Problem } from '@sluice/bundle';
import { readBundle } from '../load/revision.ts';
import { reading, Stopped } from './failure.ts';

// Apart from what reads manifests: a command that follows one packet starts in half the time without that.

/**
 * A bundle from a directory or a Git revision.
 * @throws Stopped when there is none
 */
export function bundleAt(spec: string): BundleFiles {
  const files = reading(spec, () => readBundle(spec));
  if (files instanceof Map) return files;
  throw new Stopped(files as Problem);
}
