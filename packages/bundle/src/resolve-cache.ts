import {
  addAll,
  type Mode,
  compareText,
  type Problem,
  type FileSections,
  type ResolvedSection,
  type Tool,
  type BundleTool,
  perObject,
  perKey,
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
import { reachProblems } from './reach.ts';
import { readRuleFile } from './read-rulefile.ts';
import { isSameEverywhere, profileOn, resolvedDigest, resolveFile, type Scope } from './resolve.ts';
import type { RuleFile } from './rulefile.ts';
import { evictableSections, type FileReader } from './evictable.ts';
import { type BundleFiles, changedFiles, sourceOf, type TextSource } from './source.ts';
import { TextsDigest } from './texts-digest.ts';
import { baseFile, clusterFile, nodeFile, profileFile, readPath } from './tree.ts';
import { VirtualCache } from './virtual/cache.ts';

/** The three YAML files that concern a node. */
export interface Head {
  readonly cluster: ClusterFile;
  readonly profile: ProfileFile;
  readonly profileName: string;
  readonly nodeFile: NodeFile;
}

/** The node and mode that rule files are resolved for; each file keeps its own until it changes, so they should be one object. */
export interface RuleScope {
  readonly scope: Scope;
  readonly mode: Mode;
}

/** The resolved rule files of one tool, in the order of loading. */
export interface ResolvedTool {
  readonly sections: readonly FileSections[];
  /** One per file, for the digest of a node's version. */
  readonly lines: readonly string[];
  readonly problems: readonly Problem[];
}

/** The resolved files of one tool, with the index for resolving changed ones. */
interface ToolParts extends ResolvedTool {
  /** The index of each path in `sections`. */
  readonly places: ReadonlyMap<string, number>;
}

interface LastTool extends ToolParts {
  readonly key: string;
  readonly files: BundleFiles;
}

interface CachedRuleFile {
  readonly key: string;
  /** Undefined once it is unlikely to be needed again. */
  file: RuleFile | undefined;
  readonly sameEverywhere: boolean;
  resolved: ResolvedRuleFile | undefined;
}

interface ResolvedRuleFile {
  readonly scope: string;
  readonly sections: FileSections;
  /** `<digest>  <file>`, for the digest of a node's version; empty when the file resolves to nothing. */
  readonly digestLine: string;
}

/**
 * Caches resolved files by path and text. A program that resolves many nodes, or one node repeatedly, keeps one cache: then an unchanged
 * file costs a look-up, or nothing for the node that was resolved last.
 */
export class ResolveCache {
  readonly #files = new Map<string, CachedRuleFile>();
  readonly #last = new Map<Tool, LastTool>();
  readonly #orders = new Map<
    BundleTool,
    { readonly files: BundleFiles; readonly profile: string; readonly paths: readonly string[] }
  >();
  #head: { readonly texts: readonly string[]; readonly head: Head } | undefined;
  /** For versions of nodes. */
  readonly digest = new TextsDigest();
  /** The cache of `.ipset` and `.ipvs` files. */
  readonly virtual = new VirtualCache();

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

  /** Forgets files that the bundle no longer has: over months a daemon sees Services of ever new names. */
  #keep(files: BundleFiles): void {
    for (const path of this.#files.keys()) if (!files.has(path)) this.#files.delete(path);
    this.virtual.keep(files);
  }

  /** The number of cached files. */
  get size(): number {
    return this.#files.size + this.virtual.size;
  }

  /** Resolves the rule files of one tool. */
  rules(files: BundleFiles, profile: string, tool: Tool, of: RuleScope): ResolvedTool {
    const key = `${profile} ${scopeKeys(of).own}`;
    const last = this.#last.get(tool);
    const known = last?.key === key ? last : undefined;
    const resolved =
      (known && this.#again(known, files, { profile, tool, of })) ?? this.#whole(files, profile, tool, of);
    if (resolved.problems.length > 0) this.#last.delete(tool);
    else this.#last.set(tool, { ...resolved, key, files });
    return resolved;
  }

  #whole(files: BundleFiles, profile: string, tool: Tool, of: RuleScope): ToolParts {
    const paths = this.paths(files, profile, tool);
    const problems: Problem[] = [];
    const found: ResolvedRuleFile[] = [];
    for (const path of paths) {
      const resolved = this.#resolve(path, sourceOf(files, path) as TextSource, of);
      if ('sections' in resolved) found.push(resolved);
      else addAll(problems, resolved);
    }
    const lines = found.map(({ digestLine: line }) => line);
    const places = new Map(paths.map((path, at) => [path, at]));
    return { sections: found.map(({ sections }) => sections), lines, places, problems };
  }

  /** Resolves changed files only; undefined when files were added or removed, or a changed file has problems. */
  #again(
    last: LastTool,
    files: BundleFiles,
    { profile, tool, of }: { readonly profile: string; readonly tool: Tool; readonly of: RuleScope },
  ): ToolParts | undefined {
    const changed = changedFiles(last.files, files).filter((path) => isRuleFile(path, profile, tool));
    if (changed.length === 0) return last;
    const [sections, lines] = [[...last.sections], [...last.lines]];
    for (const path of changed) {
      const at = last.places.get(path);
      const source = sourceOf(files, path);
      const resolved = source && this.#resolve(path, source, of);
      if (at === undefined || !resolved || !('sections' in resolved)) return undefined;
      sections[at] = resolved.sections;
      lines[at] = resolved.digestLine;
    }
    return { sections, lines, places: last.places, problems: [] };
  }

  #resolve(path: string, source: TextSource, of: RuleScope): ResolvedRuleFile | readonly Problem[] {
    const cached = this.#read(path, source);
    if (!('sameEverywhere' in cached)) return cached;
    const key = scopeKeys(of)[cached.sameEverywhere ? 'shared' : 'own'];
    if (cached.resolved?.scope === key) return cached.resolved;
    const file = cached.file ?? readAgain(path, source);
    const kind = readPath(path)?.kind === 'base' ? 'base' : 'service';
    const reader = new RuleFileReader(path, source, of.scope);
    const sections = reader.resolve(file);
    const problems = reachProblems(path, kind, file, sections, of.mode);
    if (problems.length > 0) return problems;
    const isEvictable = !source.isInMemory;
    // A program that resolves many nodes needs a file again for each, unless it is the same for all.
    if (isEvictable || cached.sameEverywhere) cached.file = undefined;
    cached.resolved = {
      scope: key,
      sections: isEvictable ? evictableSections(sections, reader) : sections,
      digestLine: digestLine(path, sections),
    };
    return cached.resolved;
  }

  /** Reads and checks a file; returns its problems. */
  #read(path: string, source: TextSource): CachedRuleFile | readonly Problem[] {
    const known = this.#files.get(path);
    if (known?.key === source.key) return known;
    const file = readRuleFile(path, source.text);
    if (!('sections' in file)) return file;
    const cached: CachedRuleFile = {
      key: source.key,
      file,
      sameEverywhere: isSameEverywhere(file),
      resolved: undefined,
    };
    this.#files.set(path, cached);
    return cached;
  }
}

/** Resolves one file for one node, later again from its text. One object per file takes less memory than closures. */
class RuleFileReader implements FileReader<FileSections> {
  readonly #path: string;
  readonly #source: TextSource;
  readonly #scope: Scope;

  constructor(path: string, source: TextSource, scope: Scope) {
    this.#path = path;
    this.#source = source;
    this.#scope = scope;
  }

  resolve(file: RuleFile): FileSections {
    return resolveFile(file, this.#scope, readPath(this.#path)?.kind === 'base');
  }

  read(): FileSections {
    return this.resolve(readAgain(this.#path, this.#source));
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

/** Reads a file that had no problems before. */
function readAgain(path: string, { text }: TextSource): RuleFile {
  const file = readRuleFile(path, text);
  if ('sections' in file) return file;
  throw new Error(`${path} changed while it was in use`);
}

/** The parts of a scope that a result depends on, as texts: of a file that is the same everywhere, and of others. */
const scopeKeys = perObject(({ scope, mode }: RuleScope) => {
  const { node, zone, nodeValues, profileValues } = scope;
  const shared = `${mode} ${JSON.stringify(profileValues)}`;
  return { shared, own: JSON.stringify([node, zone ?? null, nodeValues, shared]) };
});

function digestLine(path: string, sections: readonly ResolvedSection[]): string {
  const digest = resolvedDigest(sections);
  const belowProfile = path.split('/').slice(2).join('/');
  return digest === undefined ? '' : [digest, '  ', belowProfile, '\n'].join('');
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
  // Without the ending, so that `a/b` sorts before `a/b-c`: `.` sorts after `-`.
  const names: string[] = [];
  for (const path of files.keys()) {
    if (path.startsWith(prefix) && path.endsWith(ending)) names.push(path.slice(0, -ending.length));
  }
  const services = names.toSorted(compareText).map((name) => name + ending);
  return [baseFile(profile, 'first', tool), ...services, baseFile(profile, 'last', tool)].filter((path) =>
    files.has(path),
  );
}
