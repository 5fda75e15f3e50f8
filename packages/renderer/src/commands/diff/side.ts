import type { BundleFiles } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import { readAllocations } from '../../load/allocations.ts';
import { readConfig } from '../../load/config/config.ts';
import { load } from '../../load/load.ts';
import { isManifestFolder, readManifestFolder } from '../../load/manifest-folder.ts';
import { type ReadSources, readSources } from '../../load/sources.ts';
import { render } from '../../render/render.ts';
import { bundleAt } from '../bundle/bundle-at.ts';
import { reading } from '../failure/failure.ts';
import { readConfigFile, siblingAllocations } from '../input/input.ts';
import { isStopped, joinProblems } from '../failure/problems.ts';

/** How to render a directory of manifests for a comparison. */
export interface SideOptions {
  readonly config?: string;
  /** The current state of the cluster, the base of both sides. */
  readonly base?: readonly string[];
}

/**
 * Reads one side of a comparison: a bundle, or a directory of manifests, which is rendered in memory.
 * @returns the files, or the problems when the manifests cannot be rendered
 * @throws Stopped when there is no bundle
 */
export async function sideAt(spec: string, options: SideOptions): Promise<BundleFiles | readonly Problem[]> {
  if (!reading(spec, () => isManifestFolder(spec))) return bundleAt(spec);
  const none: ReadSources = { sources: [], problems: [] };
  const base =
    options.base === undefined ? none : await readSources(options.base, { recursive: false, stdin: process.stdin });
  const change = reading(spec, () => readManifestFolder(spec));
  const [changed, based] = [load(change.sources), load(base.sources)];
  const config = readConfig({
    ...readConfigFile(options.config),
    kubeProxy: [...based.kubeProxy, ...changed.kubeProxy],
  });
  const allocations = readAllocations(siblingAllocations(options.config ?? 'sluice.yaml'));
  const read = [base, change, based, changed, config, allocations].flatMap(({ problems }) => problems);
  const rendered = render({
    base: based.objects,
    change: changed.objects,
    config: config.config,
    allocations: allocations.allocations,
    allocate: options.base === undefined,
    snapshot: false,
    strict: false,
  });
  const problems = joinProblems(read, rendered.problems);
  return isStopped(problems) ? problems : rendered.files;
}
