import {
  addAll,
  sectionsDependOnHost,
  type Family,
  type FamilyProgram,
  fillRules,
  type HostValues,
  linkFlat,
  modeFacts,
  type Problem,
  type ResolvedRules,
  type TableName,
  TreeLinker,
  type LinkRule,
  readLine,
  type RuleError,
} from '@sluice/netfilter';
import { collectRules, hostValues, type ResolvedFiles } from '@sluice/bundle';
import type { NodeFacts } from '../../ports/node-facts.ts';
import type { NodeState } from '../../ports/node-state.ts';

/** `tree`: names that identify the content of chains, and a switch between two programs; `flat`: the names of kube-proxy. */
export type ChainLayout = 'tree' | 'flat';

/** Linked rules of earlier bundles, so that a bundle costs only its changes. */
export class LinkMemory {
  readonly rules = new RuleMemory();
  readonly trees: Readonly<Record<Family, TreeLinker>> = { ipv4: new TreeLinker(), ipv6: new TreeLinker() };
}

interface LinkOptions {
  readonly layout: ChainLayout;
  readonly active?: NodeState | undefined;
  readonly provideKubeChains?: boolean;
  readonly knowsBpf?: boolean;
}

/** A node's programs, and the problems because of which they must not be loaded. */
interface LinkedFamilies {
  readonly families: NodeState['families'];
  readonly problems: readonly Problem[];
}

/**
 * Links the rules of a node.
 * @param memory of earlier bundles; one for each caller
 */
export function linkFamilies(
  resolved: ResolvedFiles,
  facts: NodeFacts,
  options: LinkOptions,
  memory: LinkMemory,
): LinkedFamilies {
  const families: { -readonly [F in Family]?: FamilyProgram } = {};
  const problems: Problem[] = [];
  const mode = modeFacts[resolved.profile.mode];
  const link = options.layout === 'tree' && mode.hasServiceChains ? linkAsTree : linkAsFlat;
  for (const family of mode.hasTables ? resolved.profile.families : []) {
    if (!resolved.sections.has(family)) continue;
    const linked = link(resolved, family, hostValues(resolved, facts, family), options, memory);
    addAll(problems, linked.problems);
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
  { active, provideKubeChains = true, knowsBpf = true }: LinkOptions,
  memory: LinkMemory,
): LinkedFamily {
  const files = sections.get(family) ?? [];
  const taken = active?.families[family];
  const options = { family, host, provideKubeChains, knowsBpf, ...(taken ? { taken } : {}) };
  const linker = memory.trees[family];
  const again = linker.relink(files, options);
  if (again) return { program: again, problems: [] };
  const tooMany = fillRules(hostRules(files), host);
  return 'code' in tooMany ? { problems: [tooMany] } : linker.link(files, options);
}

/** The rules that are repeated for each address of the node. */
function hostRules(files: Parameters<typeof collectRules>[0]): ResolvedRules {
  const { filter, nat } = collectRules(files.filter(sectionsDependOnHost));
  const only = ({ rules }: { readonly rules: readonly string[] }): ResolvedRules[TableName] => ({
    chains: [],
    rules: rules.filter((rule) => rule.includes('${host.')),
  });
  return { filter: only(filter), nat: only(nat) };
}

type RulesByText = Readonly<Record<Family, Map<string, LinkRule>>>;

/**
 * Caches parsed rules. Parsing 23,000 rules takes 100 ms, looking them up 5 ms. A refused rule is not cached: its bundle is not applied.
 */
class RuleMemory {
  #young = nothing();
  #old = nothing();

  readonly read = (text: string, family: Family): LinkRule | RuleError => {
    const young = this.#young[family];
    const rule = young.get(text) ?? this.#old[family].get(text) ?? readLine(text, family);
    if (!('error' in rule)) young.set(text, rule);
    return rule;
  };

  /** Drops the rules that were not read since the last sweep. */
  sweep(): void {
    this.#old = this.#young;
    this.#young = nothing();
  }
}

function nothing(): RulesByText {
  return { ipv4: new Map(), ipv6: new Map() };
}
