import { addAll } from './add-all.ts';
import {
  type ClusterFile,
  isProblem,
  type Mode,
  type NodeFile,
  type ProfileFile,
  readCluster,
  readNode,
  readProfile,
} from './documents.ts';
import { compareText, type Problem } from './problem.ts';
import { reachProblems } from './reach.ts';
import { readRuleFile } from './read-rulefile.ts';
import {
  isSameEverywhere,
  profileOn,
  type ResolvedSection,
  resolvedDigest,
  resolveFile,
  type Scope,
} from './resolve.ts';
import type { RuleFile, Tool, VirtualTool } from './rulefile.ts';
import { type BundleFiles, changedFiles, lend, type Lender, sourceOf, type TextSource } from './source.ts';
import { TextsDigest } from './texts-digest.ts';
import { baseFile, clusterFile, nodeFile, profileFile, readPath } from './tree.ts';
import { VirtualCache } from './virtual/cache.ts';

/** What one file resolved to. */
export type Sections = readonly ResolvedSection[];

/** The three YAML files that concern a node. */
export interface Head {
  readonly cluster: ClusterFile;
  readonly profile: ProfileFile;
  readonly profileName: string;
  readonly nodeFile: NodeFile;
}

/** Whom rule files are resolved for. */
export interface RuleScope {
  readonly scope: Scope;
  readonly mode: Mode;
}

/** The rule files of one tool as one node has them, in the order of loading. */
export interface ResolvedTool {
  readonly sections: readonly Sections[];
  /** One for each file, as a node's version counts them. */
  readonly lines: readonly string[];
  readonly problems: readonly Problem[];
}

/** The files of one tool with what the next ones are told from. */
interface ToolParts extends ResolvedTool {
  /** Where each path stands. */
  readonly places: ReadonlyMap<string, number>;
}

interface LastTool extends ToolParts {
  readonly key: string;
  readonly files: BundleFiles;
}

interface Cached {
  readonly key: string;
  /** Left out once nobody is expected to need it again. */
  file: RuleFile | undefined;
  readonly sameEverywhere: boolean;
  resolved: ResolvedFile | undefined;
}

interface ResolvedFile {
  readonly scope: string;
  readonly sections: Sections;
  /** `<digest>  <file>`, as a node's version counts it; empty when the file resolves to nothing. */
  readonly digestLine: string;
}

/**
 * Remembers what files resolved to, by path and text. One reader that resolves many nodes, or one node again and again,
 * keeps one: then a file that did not change costs a look-up, and nothing where it is asked for the node that was asked for last.
 */
export class ResolveCache {
  readonly #files = new Map<string, Cached>();
  readonly #last = new Map<Tool, LastTool>();
  readonly #orders = new Map<
    Tool | VirtualTool,
    { readonly files: BundleFiles; readonly profile: string; readonly paths: readonly string[] }
  >();
  #head: { readonly texts: readonly string[]; readonly head: Head } | undefined;
  /** Of what nodes resolve to. */
  readonly digest = new TextsDigest();
  /** What `.ipset` and `.ipvs` files resolved to. */
  readonly virtual = new VirtualCache();

  /** The YAML files of a node, or their problems; undefined when the bundle has no such node. */
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

  /** As `ruleFiles` tells; what it told last where no file of this tool came or went. */
  paths(files: BundleFiles, profile: string, tool: Tool | VirtualTool): readonly string[] {
    const last = this.#orders.get(tool);
    const isMoved = (path: string): boolean =>
      isRuleFile(path, profile, tool) && last?.files.has(path) !== files.has(path);
    const isSame = last?.profile === profile && !changedFiles(last.files, files).some(isMoved);
    const paths = isSame ? last.paths : ruleFiles(files, profile, tool);
    if (last && !isSame && last.files !== files) this.#keep(files);
    this.#orders.set(tool, { files, profile, paths });
    return paths;
  }

  /** What a bundle no longer has is let go: over months a daemon sees Services of ever new names. */
  #keep(files: BundleFiles): void {
    for (const path of this.#files.keys()) if (!files.has(path)) this.#files.delete(path);
    this.virtual.keep(files);
  }

  /** How many files are remembered. */
  get size(): number {
    return this.#files.size + this.virtual.size;
  }

  /** The rule files of one tool. */
  rules(files: BundleFiles, profile: string, tool: Tool, of: RuleScope): ResolvedTool {
    const key = `${profile} ${scopeKey(of, false)}`;
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
    const found: ResolvedFile[] = [];
    for (const path of paths) {
      const resolved = this.#resolve(path, sourceOf(files, path) as TextSource, of);
      if ('sections' in resolved) found.push(resolved);
      else addAll(problems, resolved);
    }
    const lines = found.map(({ digestLine: line }) => line);
    const places = new Map(paths.map((path, at) => [path, at]));
    return { sections: found.map(({ sections }) => sections), lines, places, problems };
  }

  /** Made from the last one; undefined where files came or went, or a file that changed has problems. */
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

  #resolve(path: string, source: TextSource, of: RuleScope): ResolvedFile | readonly Problem[] {
    const cached = this.#read(path, source);
    if (!('sameEverywhere' in cached)) return cached;
    const key = scopeKey(of, cached.sameEverywhere);
    if (cached.resolved?.scope === key) return cached.resolved;
    const file = cached.file ?? readAgain(path, source);
    const kind = readPath(path)?.kind === 'base' ? 'base' : 'service';
    const reader = new FileReader(path, source, of.scope);
    const sections = reader.resolve(file);
    const problems = reachProblems(path, kind, file, sections, of.mode);
    if (problems.length > 0) return problems;
    const isLent = !source.isAtHand;
    // Who resolves many nodes needs a file again for each, unless it says the same for all.
    if (isLent || cached.sameEverywhere) cached.file = undefined;
    cached.resolved = {
      scope: key,
      sections: isLent ? lend(sections, reader) : sections,
      digestLine: digestLine(path, sections),
    };
    return cached.resolved;
  }

  /** The file read and checked, or its problems. */
  #read(path: string, source: TextSource): Cached | readonly Problem[] {
    const known = this.#files.get(path);
    if (known?.key === source.key) return known;
    const file = readRuleFile(path, source.text);
    if (!('sections' in file)) return file;
    const cached: Cached = { key: source.key, file, sameEverywhere: isSameEverywhere(file), resolved: undefined };
    this.#files.set(path, cached);
    return cached;
  }
}

/** Resolves one file for one node, and again from its text. An object for each file: closures would be several. */
class FileReader implements Lender {
  readonly #path: string;
  readonly #source: TextSource;
  readonly #scope: Scope;

  constructor(path: string, source: TextSource, scope: Scope) {
    this.#path = path;
    this.#source = source;
    this.#scope = scope;
  }

  resolve(file: RuleFile): Sections {
    return resolveFile(file, this.#scope, readPath(this.#path)?.kind === 'base');
  }

  read(): Sections {
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

/** A file that was read without problems before. */
function readAgain(path: string, { text }: TextSource): RuleFile {
  const file = readRuleFile(path, text);
  if ('sections' in file) return file;
  throw new Error(`${path} is no longer what it was`);
}

const keys = new WeakMap<Scope, { readonly node: string; readonly profile: string }>();

/** What of the scope the result depends on, as a text to compare. */
function scopeKey({ scope, mode }: RuleScope, sameEverywhere: boolean): string {
  let known = keys.get(scope);
  if (!known) {
    const profile = JSON.stringify([mode, scope.profileValues]);
    known = { profile, node: JSON.stringify([scope.node, scope.zone ?? null, scope.nodeValues, profile]) };
    keys.set(scope, known);
  }
  return sameEverywhere ? known.profile : known.node;
}

function digestLine(path: string, sections: readonly ResolvedSection[]): string {
  const digest = resolvedDigest(sections);
  const belowProfile = path.split('/').slice(2).join('/');
  return digest === undefined ? '' : [digest, '  ', belowProfile, '\n'].join('');
}

const isRuleFile = (path: string, profile: string, tool: Tool | VirtualTool): boolean =>
  path.startsWith(`profiles/${profile}/`) && path.endsWith(`.${tool}`);

const orders = new WeakMap<BundleFiles, Map<string, readonly string[]>>();

/** The paths of a profile's rule files of one tool, in the order of loading. Sorted once for each `files`, which must not change. */
export function ruleFiles(files: BundleFiles, profile: string, tool: Tool | VirtualTool): readonly string[] {
  const known = orders.get(files) ?? new Map<string, readonly string[]>();
  orders.set(files, known);
  const key = `${profile}.${tool}`;
  const order = known.get(key) ?? sortRuleFiles(files, profile, tool);
  known.set(key, order);
  return order;
}

function sortRuleFiles(files: BundleFiles, profile: string, tool: Tool | VirtualTool): readonly string[] {
  const prefix = `profiles/${profile}/services/`;
  const ending = `.${tool}`;
  // Without the ending, so that `a/b` stands before `a/b-c`: `.` sorts after `-`.
  const names: string[] = [];
  for (const path of files.keys()) {
    if (path.startsWith(prefix) && path.endsWith(ending)) names.push(path.slice(0, -ending.length));
  }
  const services = names.toSorted(compareText).map((name) => name + ending);
  return [baseFile(profile, 'first', tool), ...services, baseFile(profile, 'last', tool)].filter((path) =>
    files.has(path),
  );
}
