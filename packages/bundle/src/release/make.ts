import { addAll, compareText, type Problem } from '@sluice/netfilter';
import { isProblem, ownAddress, readProfile, readCluster } from '../documents.ts';
import { nodesOf, summariseNode } from '../node.ts';
import { ResolveCache } from '../resolve-cache.ts';
import type { BundleFiles } from '../source.ts';
import { fileDigest } from '../seal/seal.ts';
import { clusterFile, readPath } from '../tree.ts';
import { releaseFile, wavesFile } from '../names.ts';
import type { Release, ReleaseFeature, ReleaseProfile } from './release.ts';
import { releaseSums } from './sums.ts';

/** The properties of a release that its files do not determine. */
export interface ReleaseTerms extends Pick<Release, 'serial' | 'revision' | 'source' | 'expires'> {
  /** Whether nodes try it at once, regardless of failed releases before. */
  readonly isUrgent?: boolean;
  /** Whether nodes apply it at once, although it may take away most Services. */
  readonly acceptsRemoval?: boolean;
  /** Whether it has `waves.yaml`. */
  readonly hasWaves?: boolean;
}

/**
 * Computes the content of `release.yaml` for a bundle.
 * @param cache of versions, for a program that makes one release after the other
 * @returns the release, or every problem that a node would report for the bundle
 */
export function makeRelease(
  files: BundleFiles,
  terms: ReleaseTerms,
  cache = new ResolveCache('versions'),
): Release | readonly Problem[] {
  const cluster = readCluster(clusterFile, files.get(clusterFile) ?? '');
  if (isProblem(cluster)) return [cluster];
  const profiles = profilesOf(files);
  const { nodes, problems } = versionsOf(files, cache);
  addAll(problems, profiles.problems);
  if (problems.length > 0) return problems;
  const features = new Set<ReleaseFeature>(Object.values(profiles.found).map(({ mode }) => `mode-${mode}` as const));
  if (hasTableWith(files, ' counter; }\n')) features.add('endpoint-counters');
  if (hasTableWith(files, 'chain refuse-localhost {\n')) features.add('localhost-node-ports');
  if (hasTableWith(files, '    meta l4proto tcp return\n')) features.add('localhost-listener');
  if (profiles.hasPrimary) features.add('primary-node-ports');
  if (hasSchedulers(files)) features.add('nft-schedulers');
  if (terms.hasWaves) features.add('waves');
  if (terms.revision !== undefined) features.add('revisions');
  if (terms.isUrgent) features.add('urgent');
  if (terms.acceptsRemoval) features.add('accept-removal');
  return {
    format: 1,
    requires: [...features].toSorted(compareText),
    cluster: cluster.name,
    serial: terms.serial,
    ...(terms.revision === undefined ? {} : { revision: terms.revision }),
    source: terms.source,
    ...(terms.expires === undefined ? {} : { expires: terms.expires }),
    profiles: profiles.found,
    nodes,
  };
}

/** A list of mode nftables that is not chosen from at random, or has weights. */
const schedulerForm = / : goto p?(?:[ih]l?\$|ml?\d)|\$\{(?:slot|localSlot):/;

function hasSchedulers(files: BundleFiles): boolean {
  for (const [path, text] of files) if (path.endsWith('.nft') && schedulerForm.test(text)) return true;
  return false;
}

/** Whether the table of a profile of mode nftables has a text. */
const hasTableWith = (files: BundleFiles, part: string): boolean =>
  [...files].some(([path, text]) => /^profiles\/[^/]+\/base\/first\.nft$/.test(path) && text.includes(part));

function profilesOf(files: BundleFiles): {
  readonly found: Record<string, ReleaseProfile>;
  /** Whether a profile has `ownAddress` in `nodePortAddresses`. */
  readonly hasPrimary: boolean;
  readonly problems: readonly Problem[];
} {
  const found: Record<string, ReleaseProfile> = {};
  const problems: Problem[] = [];
  let hasPrimary = false;
  for (const [path, text] of files) {
    const what = readPath(path);
    if (what?.kind !== 'profile') continue;
    const profile = readProfile(path, text);
    if (isProblem(profile)) {
      problems.push(profile);
      continue;
    }
    found[what.profile] = { mode: profile.mode, families: profile.families, needs: profile.needs };
    hasPrimary ||= profile.nodePortAddresses.includes(ownAddress);
  }
  return { found, hasPrimary, problems };
}

/** The version of each node, as its applier computes it. */
function versionsOf(
  files: BundleFiles,
  cache: ResolveCache,
): {
  readonly nodes: Release['nodes'];
  readonly problems: Problem[];
} {
  const nodes: Record<string, { profile: string; version: string }> = {};
  for (const name of nodesOf(files)) {
    const node = summariseNode(files, name, cache);
    // The nodes of a profile have the same problems, so one node's are enough.
    if (!('version' in node)) return { nodes, problems: [...node] };
    nodes[name] = { profile: node.profileName, version: node.version };
  }
  return { nodes, problems: [] };
}

/** The text of `SHA256SUMS` for a bundle, its `release.yaml` and, where it has them, its waves. */
export function sumsOf(files: BundleFiles, releaseText: string, wavesText?: string): string {
  const digests = new Map([...files].map(([path, text]) => [path, fileDigest(text)]));
  digests.set(releaseFile, fileDigest(releaseText));
  if (wavesText !== undefined) digests.set(wavesFile, fileDigest(wavesText));
  return releaseSums(digests);
}
