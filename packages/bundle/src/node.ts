import { hash } from 'node:crypto';
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
import type { ResolvedRules } from './link/program.ts';
import { compareText, type Place, type Problem } from './problem.ts';
import {
  fillVariables,
  isSameEverywhere,
  type ResolvedSection,
  resolvedDigest,
  resolveFile,
  type Scope,
  valueOf,
} from './resolve.ts';
import { reachProblems } from './reach.ts';
import { readRuleFile } from './read-rulefile.ts';
import { type Family, familyOf, type RuleFile, type TableName, type Tool, type VirtualTool } from './rulefile.ts';
import { type BundleFiles, lend, sourceOf, type TextSource } from './source.ts';
import { baseFile, clusterFile, nodeFile, profileFile, readPath, sysctlFile } from './tree.ts';
import { readKernelLine } from './rules/kernel.ts';
import { unknownVariable } from './variables.ts';
import { VirtualCache, virtualScope } from './virtual/cache.ts';
import type { ResolvedFile, ResolvedVirtual } from './virtual/resolve.ts';

/** What one node runs, with `${host.*}` as written. */
export interface ResolvedNode {
  readonly node: string;
  readonly profileName: string;
  readonly cluster: ClusterFile;
  readonly profile: ProfileFile;
  readonly nodeFile: NodeFile;
  /** 16 hex digits; equal wherever the rules are equal. README.md, "Digests". */
  readonly version: string;
  /** Per family of the profile. */
  readonly rules: { readonly [F in Family]?: ResolvedRules };
  /** In mode ipvs: the lines of its other files. `readIpvs` reads them. */
  readonly ipvs?: ResolvedVirtual;
  /** Lines `key = value`, perhaps with a guard `@kernel=`, not yet checked against the allow-list. */
  readonly sysctls: readonly string[];
  /** A floor for the hash table's size. */
  readonly conntrackHashSize?: number;
}

interface Cached {
  readonly key: string;
  /** Left out once nobody is expected to need it again. */
  file: RuleFile | undefined;
  readonly sameEverywhere: boolean;
  resolved?: {
    readonly scope: string;
    readonly sections: readonly ResolvedSection[];
    /** `<digest>  <file>`, as a node's version counts it; empty when the file resolves to nothing. */
    readonly digestLine: string;
  };
}

/**
 * Remembers what files resolved to, by path and text. One reader that resolves many nodes, or one node again and again,
 * keeps one: then a file that did not change costs a look-up.
 */
export class ResolveCache {
  readonly #files = new Map<string, Cached>();
  /** What `.ipset` and `.ipvs` files resolved to. */
  readonly virtual = new VirtualCache();

  /** The file read and checked, or its problems. */
  read(path: string, source: TextSource): Cached | readonly Problem[] {
    const known = this.#files.get(path);
    if (known?.key === source.key) return known;
    const file = readRuleFile(path, source.text);
    if (!('sections' in file)) return file;
    const cached: Cached = { key: source.key, file, sameEverywhere: isSameEverywhere(file) };
    this.#files.set(path, cached);
    return cached;
  }
}

/**
 * Everything that one node of a bundle runs.
 * @returns the rules, or every problem met (`BUNDLE_INVALID`, `BUNDLE_UNKNOWN_NODE`)
 */
export function resolveNode(
  files: BundleFiles,
  node: string,
  cache = new ResolveCache(),
): ResolvedNode | readonly Problem[] {
  const parts = resolveSections(files, node, cache);
  if (!('version' in parts)) return parts;
  const { sections, ...summary } = parts;
  const rules: { [F in Family]?: ResolvedRules } = {};
  for (const [family, ofFamily] of sections) rules[family] = collectRules(ofFamily);
  return { ...summary, rules };
}

/**
 * A node without its rules. Where a thousand nodes are listed, putting their rules together would take most of the time.
 * @returns what `resolveNode` would say, or its problems
 */
export function summariseNode(
  files: BundleFiles,
  node: string,
  cache = new ResolveCache(),
): Omit<ResolvedNode, 'rules'> | readonly Problem[] {
  const parts = resolveSections(files, node, cache);
  if (!('version' in parts)) return parts;
  const { sections: _sections, ...summary } = parts;
  return summary;
}

/** A node with its rules file by file. */
export interface ResolvedFiles extends Omit<ResolvedNode, 'rules'> {
  /** The sections of each file, in the order of loading; the same objects as before for a file that did not change. */
  readonly sections: ReadonlyMap<Family, readonly (readonly ResolvedSection[])[]>;
}

/**
 * A node with its rules file by file, as `linkTree` takes them.
 * @returns what `resolveNode` would say, or its problems
 */
export function resolveSections(
  files: BundleFiles,
  node: string,
  cache = new ResolveCache(),
): ResolvedFiles | readonly Problem[] {
  const head = readHead(files, node);
  if (!('cluster' in head)) return head;
  const { profileName, profile } = head;
  const problems: Problem[] = [];
  const sections = new Map<Family, (readonly ResolvedSection[])[]>();
  const digests: string[] = [];
  for (const [tool, family] of Object.entries(familyOf) as [Tool, Family][]) {
    if (!profile.families.includes(family)) continue;
    const scope = scopeOf(head, node, family);
    const ofFamily: (readonly ResolvedSection[])[] = [];
    for (const path of ruleFiles(files, profileName, tool)) {
      const resolved = resolveCached(cache, path, sourceOf(files, path) as TextSource, scope, profile.mode);
      if (!('sections' in resolved)) problems.push(...resolved);
      else {
        ofFamily.push(resolved.sections);
        digests.push(resolved.digestLine);
      }
    }
    sections.set(family, ofFamily);
  }
  const virtual = resolveVirtualFiles(files, head, node, cache, digests, problems);
  const sysctls = sysctlLines(sysctlFile(profileName), files, head, node, problems);
  if (problems.length > 0) return problems;
  if (sysctls.length > 0)
    digests.push(`${hash('sha256', sysctls.map((line) => `${line}\n`).join(''), 'hex')}  base/sysctl.conf\n`);
  const hashSize = valueOf(head.nodeFile.values, undefined, 'conntrackHashSize');
  return {
    node,
    ...head,
    version: hash('sha256', digests.join(''), 'hex').slice(0, 16),
    sections,
    ...(virtual ? { ipvs: virtual } : {}),
    sysctls,
    ...(typeof hashSize === 'number' ? { conntrackHashSize: hashSize } : {}),
  };
}

/** The `.ipset` and `.ipvs` files of a node; undefined in mode iptables, which must have none. */
function resolveVirtualFiles(
  files: BundleFiles,
  head: Head,
  node: string,
  cache: ResolveCache,
  digests: string[],
  problems: Problem[],
): ResolvedVirtual | undefined {
  const { profile, profileName, nodeFile: own } = head;
  const scope = virtualScope({ node, zone: own.zone, nodeValues: own.values, profileValues: profile.values }, profile);
  const resolve = (tool: VirtualTool): readonly ResolvedFile[] =>
    ruleFiles(files, profileName, tool).flatMap((path) => {
      const done = cache.virtual.resolve(path, sourceOf(files, path) as TextSource, scope);
      if (!('file' in done)) {
        problems.push(...done);
        return [];
      }
      digests.push(done.digestLine);
      return [done.file];
    });
  const virtual = { ipset: resolve('ipset'), ipvs: resolve('ipvs') };
  return profile.mode === 'ipvs' ? virtual : undefined;
}

type Head = Pick<ResolvedNode, 'cluster' | 'profile' | 'profileName' | 'nodeFile'>;

/** The three YAML files that concern a node. */
function readHead(files: BundleFiles, node: string): Head | readonly Problem[] {
  const nodeText = files.get(nodeFile(node));
  if (nodeText === undefined) return [unknownNode(files, node)];
  const cluster = readCluster(clusterFile, files.get(clusterFile) ?? '');
  const own = readNode(nodeFile(node), nodeText);
  if (isProblem(cluster)) return [cluster];
  if (isProblem(own)) return [own];
  const path = profileFile(own.profile);
  const profile = readProfile(path, files.get(path) ?? '');
  return isProblem(profile) ? [profile] : { cluster, nodeFile: own, profileName: own.profile, profile };
}

/** The names of the nodes that the bundle has, sorted. */
export function nodesOf(files: BundleFiles): readonly string[] {
  const names: string[] = [];
  for (const path of files.keys()) {
    const what = readPath(path);
    if (what?.kind === 'node') names.push(what.node);
  }
  return names.toSorted(compareText);
}

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

function resolveCached(
  cache: ResolveCache,
  path: string,
  source: TextSource,
  scope: Scope,
  mode: Mode,
): NonNullable<Cached['resolved']> | readonly Problem[] {
  const cached = cache.read(path, source);
  if (!('sameEverywhere' in cached)) return cached;
  const key = scopeKey(scope, mode, cached.sameEverywhere);
  if (cached.resolved?.scope === key) return cached.resolved;
  const file = cached.file ?? readAgain(path, source);
  const kind = readPath(path)?.kind === 'base' ? 'base' : 'service';
  const resolve = (of: RuleFile): readonly ResolvedSection[] => resolveFile(of, scope, kind === 'base');
  const sections = resolve(file);
  const problems = reachProblems(path, kind, file, sections, mode);
  if (problems.length > 0) return problems;
  const isLent = !source.isAtHand;
  // Who resolves many nodes needs a file again for each, unless it says the same for all.
  if (isLent || cached.sameEverywhere) cached.file = undefined;
  cached.resolved = {
    scope: key,
    sections: isLent ? lend(sections, () => resolve(readAgain(path, source))) : sections,
    digestLine: digestLine(path, sections),
  };
  return cached.resolved;
}

/** A file that was read without problems before. */
function readAgain(path: string, { text }: TextSource): RuleFile {
  const file = readRuleFile(path, text);
  if ('sections' in file) return file;
  throw new Error(`${path} is no longer what it was`);
}

const keys = new WeakMap<Scope, { readonly node: string; readonly profile: string }>();

/** What of the scope the result depends on, as a text to compare. */
function scopeKey(scope: Scope, mode: Mode, sameEverywhere: boolean): string {
  let known = keys.get(scope);
  if (!known) {
    const profile = JSON.stringify([mode, scope.profileValues]);
    known = { profile, node: JSON.stringify([scope.node, scope.zone ?? null, scope.nodeValues, profile]) };
    keys.set(scope, known);
  }
  return sameEverywhere ? known.profile : known.node;
}

function scopeOf(head: Head, node: string, family: Family): Scope {
  return {
    family,
    node,
    zone: head.nodeFile.zone,
    nodeValues: head.nodeFile.values,
    profileValues: head.profile.values,
  };
}

function digestLine(path: string, sections: readonly ResolvedSection[]): string {
  const digest = resolvedDigest(sections);
  const belowProfile = path.split('/').slice(2).join('/');
  return digest === undefined ? '' : [digest, '  ', belowProfile, '\n'].join('');
}

/** Puts the sections of files behind each other, table by table: what `linkFlat` takes. */
export function collectRules(files: readonly (readonly ResolvedSection[])[]): ResolvedRules {
  const rules: Record<TableName, { chains: string[]; rules: string[] }> = {
    filter: { chains: [], rules: [] },
    nat: { chains: [], rules: [] },
  };
  for (const section of files.flat()) {
    const table = rules[section.table];
    for (const chain of section.chains) table.chains.push(chain);
    for (const rule of section.rules) table.rules.push(rule);
  }
  return rules;
}

function sysctlLines(
  path: string,
  files: BundleFiles,
  head: Head,
  node: string,
  problems: Problem[],
): readonly string[] {
  const scope = { node, nodeValues: head.nodeFile.values, profileValues: head.profile.values };
  const lines: string[] = [];
  for (const [index, line] of (files.get(path) ?? '').split('\n').entries()) {
    if (line === '' || line.startsWith('#')) continue;
    const stray = unknownVariable(line);
    const at = { file: path, line: index + 1, column: 1 };
    if (stray !== undefined) problems.push(strayVariable(at, `${stray} is no variable`));
    else if (line.startsWith('@') && readKernelLine(line) === undefined)
      problems.push(strayVariable(at, `${line.split(' ', 1)[0]} is no guard of sysctls`));
    else lines.push(...fillVariables(line, scope));
  }
  return lines;
}

function strayVariable(at: Place, text: string): Problem {
  const hint = 'Files of a bundle are written by `sluice render`; render again rather than edit them';
  return { code: 'BUNDLE_INVALID', level: 'error', at, message: `Cannot read sysctls: ${text}`, hint };
}

function unknownNode(files: BundleFiles, node: string): Problem {
  const names = nodesOf(files);
  const some = names.slice(0, 5).join(', ') + (names.length > 5 ? `, … (${names.length} in all)` : '');
  return {
    code: 'BUNDLE_UNKNOWN_NODE',
    level: 'error',
    message: `Cannot resolve node ${node}: the bundle has no nodes/${node}/node.yaml`,
    hint:
      names.length === 0 ? 'The bundle has no node at all: add Nodes to the input or to sluice.yaml' : `It has ${some}`,
  };
}
