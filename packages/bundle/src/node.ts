import {
  addAll,
  refusal,
  type ResolvedRules,
  compareText,
  namesNear,
  type Place,
  type Problem,
  type FileSections,
  type Mode,
  type Family,
  familyOf,
  type TableName,
  type Tool,
  type VirtualTool,
  perKey,
  readKernelLine,
  type ResolvedVirtual,
  type ResolvedVirtualFile,
} from '@sluice/netfilter';
import { fileDigest } from './seal/seal.ts';
import { type Head, ResolveCache } from './resolve-cache.ts';
import type { RuleScope } from './rule-files.ts';
import { fillVariables, type Scope, valueOf } from './resolve.ts';
import type { BundleFiles } from './source.ts';
import { readPath, sysctlFile } from './tree.ts';
import { unknownVariable } from './variables.ts';
import type { VirtualScope } from './virtual/files.ts';

/** What one node runs, with `${host.*}` as written. */
export interface ResolvedNode extends Head {
  readonly node: string;
  /** 16 hex digits; equal wherever the rules are equal. README.md, "Digests". */
  readonly version: string;
  /** Per family of the profile. */
  readonly rules: { readonly [F in Family]?: ResolvedRules };
  /** In mode ipvs: the lines of its other files. `readIpvs` reads them. */
  readonly ipvs?: ResolvedVirtual;
  /** In mode nftables: its files, in the order of loading. `readNft` reads them. */
  readonly nft?: readonly ResolvedVirtualFile[];
  /** Lines `key = value`, optionally with a guard `@kernel=`, not yet checked against the allow-list. */
  readonly sysctls: readonly string[];
  /** A floor for the hash table's size. */
  readonly conntrackHashSize?: number;
}

/**
 * Resolves one node of a bundle.
 * @returns the rules, or all problems (`BUNDLE_INVALID`, `BUNDLE_UNKNOWN_NODE`)
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
 * Resolves a node without its rules. In a list of a thousand nodes merging rules would take most of the time.
 * @returns the node, or the problems of `resolveNode`
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
  /** The sections of each file, in the order of loading; an unchanged file keeps the identity of its sections. */
  readonly sections: ReadonlyMap<Family, readonly FileSections[]>;
}

/**
 * Resolves a node with its rules file by file, for `linkTree`.
 * @returns the node, or the problems of `resolveNode`
 */
export function resolveSections(
  files: BundleFiles,
  node: string,
  cache = new ResolveCache(),
): ResolvedFiles | readonly Problem[] {
  const head = cache.head(files, node) ?? [unknownNode(files, node)];
  if (!('cluster' in head)) return head;
  const { profileName, profile } = head;
  const problems: Problem[] = [];
  const sections = new Map<Family, readonly FileSections[]>();
  const lines: (readonly string[])[] = [];
  for (const [tool, family] of Object.entries(familyOf) as [Tool, Family][]) {
    if (!profile.families.includes(family)) continue;
    const paths = cache.paths(files, profileName, tool);
    const resolved = cache.rules.resolveAll(tool, files, paths, scopeOf(head, node, family));
    addAll(problems, resolved.problems);
    sections.set(family, resolved.files);
    lines.push(resolved.lines);
  }
  const virtual = resolveVirtualFiles(files, head, node, cache, lines, problems);
  const sysctls = sysctlLines(sysctlFile(profileName), files, head, node, problems);
  if (problems.length > 0) return problems;
  if (sysctls.length > 0)
    lines.push([`${fileDigest(sysctls.map((line) => `${line}\n`).join(''))}  base/sysctl.conf\n`]);
  const hashSize = valueOf(head.nodeFile.values, undefined, 'conntrackHashSize');
  return {
    node,
    ...head,
    version: cache.digest.of(...lines).slice(0, 16),
    sections,
    ...virtual,
    sysctls,
    ...(typeof hashSize === 'number' ? { conntrackHashSize: hashSize } : {}),
  };
}

/** Resolves the `.ipset`, `.ipvs` and `.nft` files of a node: a profile has only those of its mode. */
function resolveVirtualFiles(
  files: BundleFiles,
  head: Head,
  node: string,
  cache: ResolveCache,
  lines: (readonly string[])[],
  problems: Problem[],
): Pick<ResolvedNode, 'ipvs' | 'nft'> {
  const { profile, profileName } = head;
  const scope = virtualScopeOf(head, node);
  const resolve = (tool: VirtualTool | 'nft'): readonly ResolvedVirtualFile[] => {
    const resolved = cache.virtual.resolveAll(tool, files, cache.paths(files, profileName, tool), scope);
    lines.push(resolved.lines);
    addAll(problems, resolved.problems);
    return resolved.files;
  };
  const [ipset, ipvs, nft] = [resolve('ipset'), resolve('ipvs'), resolve('nft')];
  return extraFiles[profile.mode]({ ipset, ipvs, nft });
}

/** What a node of each mode has beside rules. */
const extraFiles = {
  iptables: () => ({}),
  ipvs: ({ ipset, ipvs }) => ({ ipvs: { ipset, ipvs } }),
  nftables: ({ nft }) => ({ nft }),
} as const satisfies Record<
  Mode,
  (files: Record<VirtualTool | 'nft', readonly ResolvedVirtualFile[]>) => Pick<ResolvedNode, 'ipvs' | 'nft'>
>;

/** The names of the nodes that the bundle has, sorted. */
export function nodesOf(files: BundleFiles): readonly string[] {
  const names: string[] = [];
  for (const path of files.keys()) {
    const what = readPath(path);
    if (what?.kind === 'node') names.push(what.node);
  }
  return names.toSorted(compareText);
}

const ruleScopes = perKey<Head, RuleScope>();

const scopeOf = (head: Head, node: string, family: Family): RuleScope =>
  ruleScopes(head, `${node} ${family}`, () => ({
    scope: { family, ...valuesFor(head, node) },
    mode: head.profile.mode,
  }));

const virtualScopes = perKey<Head, VirtualScope>();

const virtualScopeOf = (head: Head, node: string): VirtualScope =>
  virtualScopes(head, node, () => ({ profile: head.profile, scope: valuesFor(head, node) }));

const valuesFor = ({ nodeFile: own, profile }: Head, node: string): Omit<Scope, 'family'> => ({
  node,
  zone: own.zone,
  nodeValues: own.values,
  profileValues: profile.values,
});

/** Merges the sections of files table by table, for `linkFlat`. */
export function collectRules(files: readonly FileSections[]): ResolvedRules {
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
    if (stray !== undefined) problems.push(strayVariable(at, `${stray} is not a variable`));
    else if (line.startsWith('@') && readKernelLine(line) === undefined)
      problems.push(strayVariable(at, `${line.split(' ', 1)[0]} is not a valid guard in sysctl.conf`));
    else addAll(lines, fillVariables(line, scope));
  }
  return lines;
}

function strayVariable(at: Place, text: string): Problem {
  const hint = 'Files of a bundle are written by `sluice render`; render again rather than edit them';
  return { code: 'BUNDLE_INVALID', level: 'error', at, message: `Cannot read sysctls: ${text}`, hint };
}

function unknownNode(files: BundleFiles, node: string): Problem {
  const names = nodesOf(files);
  return refusal(
    'BUNDLE_UNKNOWN_NODE',
    `Cannot resolve node ${node}: the bundle has no nodes/${node}/node.yaml`,
    names.length === 0
      ? 'The bundle has no nodes: add Nodes to the input or to sluice.yaml'
      : `It has ${namesNear(node, names)}`,
  );
}
