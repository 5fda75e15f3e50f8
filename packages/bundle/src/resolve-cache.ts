import { type BundleTool, compareText, perKey, type Problem } from '@sluice/netfilter';
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
import { profileOn } from './resolve.ts';
import { ruleFileFormat } from './rule-files.ts';
import { type BundleFiles, changedFiles } from './source.ts';
import { TextsDigest } from './seal/texts-digest.ts';
import { baseFile, clusterFile, nodeFile, profileFile } from './tree.ts';
import { virtualFileFormat } from './virtual/files.ts';

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
  #head: { readonly texts: readonly string[]; readonly head: Head } | undefined;
  /** For versions of nodes. */
  readonly digest = new TextsDigest();
  readonly rules = new FileCache(ruleFileFormat);
  readonly virtual = new FileCache(virtualFileFormat);

  /** Reads the YAML files of a node; returns their problems, or undefined when the bundle has no such node. */
  head(files: BundleFiles, node: string): Head | readonly Problem[] | undefined {
    const own = files.get(nodeFile(node));
    if (own === undefined) return undefined;
    const texts = [node, own, files.get(clusterFile) ?? ''];
    const known = this.#head;
    const profile = known && files.get(profileFile(known.head.profileName));
    if (known?.texts.every((text, at) => text === [...texts, profile][at])) return known.head;
    const head = readHead(files, node, own);
    if ('cluster' in head) this.#head = { texts: [...texts, files.get(profileFile(head.profileName)) ?? ''], head };
    return head;
  }

  /** `ruleFiles`, cached until a file of this tool is added or removed. */
  paths(files: BundleFiles, profile: string, tool: BundleTool): readonly string[] {
    const last = this.#orders.get(tool);
    const isAddedOrRemoved = (path: string): boolean =>
      isRuleFile(path, profile, tool) && last?.files.has(path) !== files.has(path);
    const isSame = last?.profile === profile && !changedFiles(last.files, files).some(isAddedOrRemoved);
    const paths = isSame ? last.paths : ruleFiles(files, profile, tool);
    if (last && !isSame && last.files !== files) this.#keep(files);
    this.#orders.set(tool, { files, profile, paths });
    return paths;
  }

  #keep(files: BundleFiles): void {
    this.rules.keep(files);
    this.virtual.keep(files);
  }

  /** The number of cached files. */
  get size(): number {
    return this.rules.size + this.virtual.size;
  }
}

function readHead(files: BundleFiles, node: string, nodeText: string): Head | readonly Problem[] {
  const cluster = readCluster(clusterFile, files.get(clusterFile) ?? '');
  const own = readNode(nodeFile(node), nodeText);
  if (isProblem(cluster)) return [cluster];
  if (isProblem(own)) return [own];
  const path = profileFile(own.profile);
  const profile = readProfile(path, files.get(path) ?? '');
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
  const prefix = `profiles/${profile}/services/`;
  const ending = `.${tool}`;
  const services: { readonly path: string; readonly name: string }[] = [];
  for (const path of files.keys()) {
    // Without the ending, so that `a/b` sorts before `a/b-c`: `.` sorts after `-`.
    if (path.startsWith(prefix) && path.endsWith(ending)) services.push({ path, name: path.slice(0, -ending.length) });
  }
  services.sort((a, b) => compareText(a.name, b.name));
  const base = (where: 'first' | 'last'): readonly string[] =>
    [baseFile(profile, where, tool)].filter((path) => files.has(path));
  return [...base('first'), ...services.map(({ path }) => path), ...base('last')];
}
