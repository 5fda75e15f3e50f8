import {
  baseFile,
  type BundleFiles,
  type ClusterFile,
  clusterFile,
  isProblem,
  type NodeFile,
  type ProfileFile,
  profileFile,
  readCluster,
  readPath,
  readProfile,
} from '@sluice/bundle';
import {
  compareText,
  families,
  type Family,
  getOrInsert,
  modeFacts,
  type Problem,
  refusal,
  Stopped,
} from '@sluice/netfilter';
import { Memory } from './memory.ts';
import { indexMatches, type MatchIndex } from './relevance.ts';

/** A parsed bundle, with indexes by which its flows are traced. */
export interface BundleView {
  readonly files: BundleFiles;
  readonly memory: Memory;
  readonly cluster: ClusterFile;
  readonly profiles: ReadonlyMap<string, ProfileFile>;
  /** By name, in byte order. */
  readonly nodes: ReadonlyMap<string, NodeFile>;
  /** The Service files of a profile by the destinations that they match; built on first use. */
  index(profile: string, family: Family): MatchIndex;
}

/**
 * @param memory shared between bundles that are compared
 * @throws Stopped with the problems of the bundle's YAML files (`BUNDLE_INVALID`)
 */
export function viewOf(files: BundleFiles, memory = new Memory()): BundleView {
  const problems: Problem[] = [];
  const keep = <T extends object>(read: T | Problem): T | undefined => {
    if (!isProblem(read)) return read;
    problems.push(read);
    return undefined;
  };
  const cluster = keep(readCluster(clusterFile, files.get(clusterFile) ?? ''));
  const profiles = new Map<string, ProfileFile>();
  const nodes: [string, NodeFile][] = [];
  for (const path of files.keys()) {
    // Nearly all files are rules of Services.
    if (!path.endsWith('.yaml')) continue;
    const what = readPath(path);
    const text = files.get(path) ?? '';
    if (what?.kind === 'profile') {
      const profile = keep(readProfile(path, text));
      if (profile) profiles.set(what.profile, profile);
    } else if (what?.kind === 'node') {
      const node = keep(memory.node(path, text));
      if (node) nodes.push([what.node, node]);
    }
  }
  for (const [name, node] of nodes) {
    if (!files.has(profileFile(node.profile))) problems.push(noProfile(name, node.profile));
  }
  if (!cluster || problems.length > 0) throw new Stopped(problems);
  nodes.sort(([a], [b]) => compareText(a, b));
  const indexes = new Map<string, MatchIndex>();
  return {
    files,
    memory,
    cluster,
    profiles,
    nodes: new Map(nodes),
    index(profile, family) {
      const mode = profiles.get(profile)?.mode ?? 'iptables';
      return getOrInsert(indexes, `${profile} ${family}`, () => indexMatches(files, profile, mode, family, memory));
    },
  };
}

/** Whether a profile has base files for a family. */
export function hasFamily(view: BundleView, profile: string, family: Family): boolean {
  const known = view.profiles.get(profile);
  if (!known?.families.includes(family)) return false;
  return view.files.has(baseFile(profile, 'first', modeFacts[known.mode].tools(family)[0]));
}

/** The families for which a profile has base files. */
export const familiesOfProfile = (view: BundleView, profile: string): readonly Family[] =>
  families.filter((family) => hasFamily(view, profile, family));

const noProfile = (node: string, profile: string): Problem =>
  refusal(
    'BUNDLE_INVALID',
    `Cannot review the bundle: it does not have the node's profile ${profile}`,
    'Render the bundle again with `sluice render` instead of editing it',
    { object: `Node ${node}` },
  );
