import {
  type BundleTool,
  compareText,
  type FileSections,
  perKey,
  perObject,
  type Problem,
  type ResolvedVirtualFile,
} from '@sluice/netfilter';
import {
  type ClusterFile,
  isProblem,
  type NodeFile,
  type ProfileFile,
  readCluster,
  readNode,
  readProfile,
} from './documents.ts';
import { FileCache } from './file-cache.ts';
import { LineCache } from './seal/line-cache.ts';
import { profileOn } from './resolve.ts';
import { ruleFileFormat, type RuleScope } from './rule-files.ts';
import type { RuleFile } from './rulefile.ts';
import { type BundleFiles, changedFiles } from './source.ts';
import { placeIn } from './seal/running-seal.ts';
import { TextsDigest } from './seal/texts-digest.ts';
import { baseFile, clusterFile, nodeFile, profileFile } from './tree.ts';
import type { VirtualFile } from './virtual/file.ts';
import { virtualFileFormat, type VirtualScope } from './virtual/files.ts';

/** The three YAML files that concern a node. */
export interface Head {
  readonly cluster: ClusterFile;
  readonly profile: ProfileFile;
  readonly profileName: string;
  readonly nodeFile: NodeFile;
}

/** What a program keeps that resolves many nodes, or one node repeatedly. */
export class ResolveCache {
  readonly #orders = new Map<
    BundleTool,
    { readonly files: BundleFiles; readonly profile: string; readonly paths: readonly string[] }
  >();
  /** By node. */
  readonly #heads = new Map<string, { readonly texts: readonly string[]; readonly head: Head }>();
  /** For versions of nodes. */
  readonly digest = new TextsDigest();
  readonly rules: Pick<FileCache<RuleFile, FileSections, RuleScope>, 'resolveAll' | 'forget' | 'size'>;
  readonly virtual: Pick<FileCache<VirtualFile, ResolvedVirtualFile, VirtualScope>, 'resolveAll' | 'forget' | 'size'>;

  /** @param what of nodes is asked for: `versions` of many in turns, without their rules, or all of a node */
  constructor(what: 'rules' | 'versions' = 'rules') {
    const Cache = what === 'rules' ? FileCache : LineCache;
    this.rules = new Cache(ruleFileFormat);
    this.virtual = new Cache(virtualFileFormat);
  }

  /** Reads the YAML files of a node; returns their problems, or undefined when the bundle has no such node. */
  head(files: BundleFiles, node: string): Head | readonly Problem[] | undefined {
    const own = files.get(nodeFile(node));
    if (own === undefined) return undefined;
    const texts = [own, files.get(clusterFile) ?? ''];
    const known = this.#heads.get(node);
    const profile = known && files.get(profileFile(known.head.profileName));
    if (known?.texts.every((text, at) => text === [...texts, profile][at])) return known.head;
    const head = readHead(files, node, own);
    // Nodes that are gone are forgotten: each node of the bundle is one of its files.
    if (this.#heads.size > files.size) this.#heads.clear();
    if ('cluster' in head)
      this.#heads.set(node, { texts: [...texts, files.get(profileFile(head.profileName)) ?? ''], head });
    return head;
  }

  /** `ruleFiles`, cached until a file of this tool is added or removed. */
  paths(files: BundleFiles, profile: string, tool: BundleTool): readonly string[] {
    const last = this.#orders.get(tool);
    const changed = last?.profile === profile ? changedFiles(last.files, files) : undefined;
    const isAddedOrRemoved = (path: string): boolean =>
      isRuleFile(path, profile, tool) && last?.files.has(path) !== files.has(path);
    const differing = changed?.filter(isAddedOrRemoved);
    const paths =
      last && differing ? withChanged(last.paths, differing, files, profile, tool) : ruleFiles(files, profile, tool);
    // Over months a daemon sees Services of ever new names.
    for (const path of differing ?? last?.paths ?? [])
      if (!files.has(path)) for (const cache of [this.rules, this.virtual]) cache.forget(path);
    this.#orders.set(tool, { files, profile, paths });
    return paths;
  }

  /** The number of cached files. */
  get size(): number {
    return this.rules.size + this.virtual.size;
  }
}

const clusterOf = perObject((files: BundleFiles) => readCluster(clusterFile, files.get(clusterFile) ?? ''));
const profiles = perKey<BundleFiles, ProfileFile | Problem>();

function readHead(files: BundleFiles, node: string, nodeText: string): Head | readonly Problem[] {
  const cluster = clusterOf(files);
  const own = readNode(nodeFile(node), nodeText);
  if (isProblem(cluster)) return [cluster];
  if (isProblem(own)) return [own];
  const path = profileFile(own.profile);
  const profile = profiles(files, path, () => readProfile(path, files.get(path) ?? ''));
  if (isProblem(profile)) return [profile];
  return { cluster, nodeFile: own, profileName: own.profile, profile: profileOn(profile, own) };
}

const isRuleFile = (path: string, profile: string, tool: BundleTool): boolean =>
  path.startsWith(`profiles/${profile}/`) && path.endsWith(`.${tool}`);

const orders = perKey<BundleFiles, readonly string[]>();

/** The paths of a profile's rule files of one tool, in the order of loading. Cached by the identity of `files`, which must not change. */
export function ruleFiles(files: BundleFiles, profile: string, tool: BundleTool): readonly string[] {
  return orders(files, `${profile}.${tool}`, () => sortRuleFiles(files, profile, tool));
}

function sortRuleFiles(files: BundleFiles, profile: string, tool: BundleTool): readonly string[] {
  const services = [...files.keys()].filter(isServiceFile(profile, tool));
  const nameOf = withoutEnding(tool);
  const named = services.map((path) => ({ path, name: nameOf(path) })).toSorted((a, b) => compareText(a.name, b.name));
  return betweenBase(
    named.map(({ path }) => path),
    files,
    profile,
    tool,
  );
}

/** The same from the list before. @param changed the files of the profile and tool that were added or removed */
function withChanged(
  before: readonly string[],
  changed: readonly string[],
  files: BundleFiles,
  profile: string,
  tool: BundleTool,
): readonly string[] {
  if (changed.length === 0) return before;
  const isOwn = isServiceFile(profile, tool);
  const services = before.filter(isOwn);
  for (const path of changed.filter(isOwn)) {
    const at = placeIn(services, path, withoutEnding(tool));
    if (files.has(path)) services.splice(at, 0, path);
    else services.splice(at, 1);
  }
  return betweenBase(services, files, profile, tool);
}

function isServiceFile(profile: string, tool: BundleTool): (path: string) => boolean {
  const [folder, ending] = [`profiles/${profile}/services/`, `.${tool}`];
  return (path) => path.startsWith(folder) && path.endsWith(ending);
}

/** A path without its ending, so that `a/b` sorts before `a/b-c`: `.` sorts after `-`. */
const withoutEnding =
  (tool: BundleTool) =>
  (path: string): string =>
    path.slice(0, -tool.length - 1);

function betweenBase(
  services: readonly string[],
  files: BundleFiles,
  profile: string,
  tool: BundleTool,
): readonly string[] {
  const base = (where: 'first' | 'last'): readonly string[] =>
    [baseFile(profile, where, tool)].filter((path) => files.has(path));
  return [...base('first'), ...services, ...base('last')];
}
