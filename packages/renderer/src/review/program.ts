import {
  baseFile,
  cidrContains,
  type Family,
  type FamilyProgram,
  fillHost,
  type HostValues,
  linkFlat,
  type NodeFile,
  type Problem,
  type ProfileFile,
  reachProblems,
  readPath,
  resolveFile,
  type ResolvedSection,
  type Scope,
  type TableName,
  valueOf,
} from '@sluice/bundle';
import { toolOf } from './tools.ts';
import type { View } from './view.ts';

/** One node of a view. */
export interface NodeOf {
  readonly name: string;
  readonly file: NodeFile;
  readonly profile: ProfileFile;
}

/** Something that keeps a bundle from being reviewed: nodes would refuse it, so it has no behaviour. */
export class ReviewStopped extends Error {
  override readonly name = 'ReviewStopped';
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super(problems[0]?.message ?? 'Cannot review the bundle');
    this.problems = problems;
  }
}

/** The node of that name. It must be there. */
export function nodeOf(view: View, name: string): NodeOf {
  const file = view.nodes.get(name)!;
  return { name, file, profile: view.profiles.get(file.profile)! };
}

/** An address or a network that `node.yaml` says of a node. */
export function factOf(node: NodeOf, family: Family, name: 'address' | 'podCIDR'): string | undefined {
  const value = valueOf(node.file.values, family, name);
  return typeof value === 'string' ? value : undefined;
}

/** What guards and variables are resolved with. */
export function scopeOf({ name, file, profile }: NodeOf, family: Family): Scope {
  return { family, node: name, zone: file.zone, nodeValues: file.values, profileValues: profile.values };
}

/**
 * What a node would run if the profile had only these Service files: its base files around them, resolved and linked.
 * @throws ReviewStopped with what is wrong with the files
 */
export function programOf(view: View, node: NodeOf, family: Family, paths: readonly string[]): FamilyProgram {
  const tool = toolOf[family];
  const profile = node.file.profile;
  const all = [baseFile(profile, 'first', tool), ...paths, baseFile(profile, 'last', tool)];
  const sections = all.filter((path) => view.files.has(path)).flatMap((path) => resolved(view, node, family, path));
  const { program, problems } = linkFlat(
    { filter: tableOf(sections, 'filter'), nat: tableOf(sections, 'nat') },
    family,
    (text, of) => view.memory.line(text, of),
  );
  if (problems.length > 0) throw new ReviewStopped(problems);
  return view.memory.share(program, family);
}

function resolved(view: View, node: NodeOf, family: Family, path: string): readonly ResolvedSection[] {
  const file = view.memory.file(path, view.files.get(path)!);
  if (!('sections' in file)) throw new ReviewStopped(file);
  const kind = readPath(path)?.kind === 'base' ? 'base' : 'service';
  const sections = resolveFile(file, scopeOf(node, family), kind === 'base');
  const problems = reachProblems(path, kind, file, sections);
  if (problems.length > 0) throw new ReviewStopped(problems);
  const host = hostOf(node, family);
  const filled = sections.map((section) => ({
    ...section,
    rules: section.rules.flatMap((rule) => fillHost(rule, host)),
  }));
  if (kind === 'base') for (const { rules } of filled) view.memory.learn(rules, family);
  return filled;
}

/** Away from the machine, the Node's own address stands for those of its interfaces. */
function hostOf(node: NodeOf, family: Family): HostValues {
  const address = factOf(node, family, 'address');
  const open = address !== undefined && node.profile.nodePortAddresses.some((cidr) => cidrContains(cidr, address));
  return { nodePortAddresses: open ? [address] : [] };
}

function tableOf(
  sections: readonly ResolvedSection[],
  table: TableName,
): { readonly chains: readonly string[]; readonly rules: readonly string[] } {
  const own = sections.filter((section) => section.table === table);
  return { chains: own.flatMap(({ chains }) => chains), rules: own.flatMap(({ rules }) => rules) };
}
