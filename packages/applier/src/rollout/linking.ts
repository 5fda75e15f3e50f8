import {
  cidrContains,
  collectRules,
  emptyProgram,
  type Family,
  type FamilyProgram,
  fillRules,
  type HostValues,
  linkFlat,
  linkedDigest,
  linkTree,
  printProgram,
  type Problem,
  readBack,
  type ResolvedFiles,
  type ResolvedRules,
  type ResolvedSection,
  settledProgram,
  type TableName,
  type TakenNames,
  TreeMemory,
} from '@sluice/bundle';
import type { NodeFacts } from './ports.ts';
import { RuleMemory } from './rule-memory.ts';
import type { NodeState } from './state.ts';

/** `tree`: names that say their content, and a switch between two programs; `flat`: the chains as kube-proxy names them. */
export type Layout = 'tree' | 'flat';

/** What was linked before, so that a bundle costs what changed since the last one. */
export class LinkMemory {
  readonly rules = new RuleMemory();
  readonly trees = new TreeMemory();
  /** The names of each program that stands or stood, with what is in them. */
  readonly taken = new WeakMap<FamilyProgram, TakenNames>();
}

export interface LinkOptions {
  readonly layout: Layout;
  readonly standing?: NodeState | undefined;
  readonly provideKubeChains?: boolean;
}

/** A node's programs, and why they must not be loaded. */
export interface Linked {
  readonly families: NodeState['families'];
  readonly problems: readonly Problem[];
}

/**
 * Puts the rules of a node together.
 * @param memory of the bundles before; one for each caller
 */
export function linkFamilies(
  resolved: ResolvedFiles,
  facts: NodeFacts,
  options: LinkOptions,
  memory: LinkMemory,
): Linked {
  const families: { -readonly [F in Family]?: FamilyProgram } = {};
  const problems: Problem[] = [];
  const link = options.layout === 'tree' && resolved.profile.mode === 'iptables' ? linkAsTree : linkAsFlat;
  for (const family of resolved.profile.families) {
    if (!resolved.sections.has(family)) continue;
    const host = { nodePortAddresses: hostAddresses(resolved, facts, family) };
    const linked = link(resolved, family, host, options, memory);
    problems.push(...linked.problems);
    if (linked.program) families[family] = linked.program;
  }
  memory.rules.sweep();
  return { families, problems };
}

interface LinkedFamily {
  readonly program?: FamilyProgram;
  readonly problems: readonly Problem[];
}

function linkAsFlat(
  { sections, profile }: ResolvedFiles,
  family: Family,
  host: HostValues,
  _options: LinkOptions,
  memory: LinkMemory,
): LinkedFamily {
  const filled = fillRules(collectRules(sections.get(family) ?? []), host);
  return 'code' in filled ? { problems: [filled] } : linkFlat(filled, family, memory.rules.read, profile.mode);
}

function linkAsTree(
  { sections }: ResolvedFiles,
  family: Family,
  host: HostValues,
  { standing, provideKubeChains = true }: LinkOptions,
  memory: LinkMemory,
): LinkedFamily {
  const files = sections.get(family) ?? [];
  const tooMany = fillRules(hostRules(files), host);
  if ('code' in tooMany) return { problems: [tooMany] };
  const held = standing?.families[family];
  const taken = held && takenBy(held, family, memory);
  const tree = linkTree(files, { family, host, provideKubeChains, ...(taken ? { taken } : {}) }, memory.trees);
  const program = settledProgram(tree.program);
  return { program, problems: tree.problems };
}

/** Whether a file names values of the machine; few do, and one that did not change is not read again. */
function asksHost(sections: readonly ResolvedSection[]): boolean {
  const known = hostAskers.get(sections);
  if (known !== undefined) return known;
  const asks = sections.some(({ rules }) => rules.some((rule) => rule.includes('${host.')));
  hostAskers.set(sections, asks);
  return asks;
}

const hostAskers = new WeakMap<readonly ResolvedSection[], boolean>();

/** The rules that are repeated for each address of the machine. */
function hostRules(files: Parameters<typeof collectRules>[0]): ResolvedRules {
  const { filter, nat } = collectRules(files.filter(asksHost));
  const only = ({ rules }: { readonly rules: readonly string[] }): ResolvedRules[TableName] => ({
    chains: [],
    rules: rules.filter((rule) => rule.includes('${host.')),
  });
  return { filter: only(filter), nat: only(nat) };
}

/** Two contents get one name once in a thousand changes; the one that stands keeps it. */
function takenBy(program: FamilyProgram, family: Family, { taken }: LinkMemory): TakenNames {
  const known = taken.get(program);
  if (known) return known;
  const names = { filter: namesIn(program, 'filter', family), nat: namesIn(program, 'nat', family) };
  taken.set(program, names);
  return names;
}

/** Only what this process did not link itself is read and hashed. */
function namesIn(program: FamilyProgram, table: TableName, family: Family): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  const others = new Map<string, readonly string[]>();
  for (const [name, rules] of program[table].chains) {
    const digest = linkedDigest(rules);
    if (digest === undefined) others.set(name, rules);
    else names.set(name, digest);
  }
  const text = printProgram({ ...emptyProgram, [table]: { chains: others, jumps: [] } });
  for (const [name, digest] of readBack(text, family)[table].chains) names.set(name, digest);
  return names;
}

/** The machine's own addresses in the networks for node ports. packages/bundle/README.md, `${host.nodePortAddresses}`. */
function hostAddresses({ profile }: ResolvedFiles, facts: NodeFacts, family: Family): readonly string[] {
  return facts.addresses[family].filter((address) =>
    profile.nodePortAddresses.some((cidr) => cidrContains(cidr, address)),
  );
}
