import {
  type BundleFiles,
  clusterFile,
  type HostFacts,
  isProblem,
  nodeFile,
  type ResolvedNode,
  resolveNode,
} from '@sluice/bundle';
import {
  type BundleTool,
  type Family,
  familyOf,
  fillHost,
  fillRules,
  type IpvsHost,
  lineFamily,
  linkFlat,
  linkTree,
  type NftState,
  partOfService,
  printFrontends,
  printNft,
  printPart,
  printProgram,
  printServers,
  printSets,
  printSection,
  type Problem,
  readIpvs,
  readNft,
  readNftFiles,
  type ResolvedRules,
  type ResolvedVirtual,
  sectionsOf,
  settledProgram,
  tableNames,
  type Tool,
  type VirtualTool,
} from '@sluice/netfilter';
import type { Format } from '@sluice/cli';
import { exitCodes } from '../../exit.ts';
import { readTree } from '../../load/tree.ts';
import type { Layout } from '../../review/flows/layout.ts';
import { incomplete } from '../bundle/complete.ts';
import { reading } from '../failure/failure.ts';
import { print, say } from '../output/progress.ts';
import { hostNotes, printHostNotes, readHostFile, ShownHost, type ShownLines } from './host.ts';
import { printDocument, reportProblems } from '../output/output.ts';
import { type NftPhase, nftPhases } from './nft-phases.ts';

/** The tools whose text can be printed alone. */
export type ShowTool = BundleTool | 'sysctl';

export interface ShowOptions {
  /** `flat`, the default: kube-proxy's chain names; `tree`: the program that a node switches to. */
  readonly layout?: Layout;
  readonly node: string;
  /** A file of `sluiced observe`. */
  readonly host?: string;
  readonly service?: string;
  readonly tool?: ShowTool;
  /** Another bundle directory. */
  readonly from?: string;
  readonly output?: Format;
}

/** `sluice show`: prints the resolved rules of a node as native text. */
export function showCommand(dir: string, options: ShowOptions): number {
  const shown = show(dir, options);
  if (!('parts' in shown)) {
    reportProblems(shown);
    return exitCodes.problem;
  }
  const { node, parts } = shown;
  if (options.output === 'json') printDocument('json', 'NodeText', { node: node.node, version: node.version, parts });
  else print(parts.map((part) => printOfTool(part, parts.length > 1)).join(''));
  return exitCodes.done;
}

/** The text for one tool. */
interface ToolText {
  readonly tool: ShowTool;
  /** Of a release: one transaction. */
  readonly phase?: NftPhase['phase'];
  readonly because?: string;
  readonly text: string;
}

/** The text of a single tool is loadable; with several tools each starts with a comment line. */
const printOfTool = ({ tool, text, phase, because }: ToolText, isOfSeveral: boolean): string => {
  if (phase !== undefined) return `# ${phase}: ${because}\n${text}`;
  return isOfSeveral && text !== '' ? `# ${loaders[tool]}\n${text}` : text;
};

function show(
  dir: string,
  options: ShowOptions,
): { readonly node: ResolvedNode; readonly parts: readonly ToolText[] } | readonly Problem[] {
  const facts = options.host === undefined ? undefined : readHostFile(options.host, options.node);
  if (facts && isProblem(facts)) return [facts];
  if (options.from !== undefined && (options.tool !== 'nft' || options.service !== undefined)) return [wrongFrom];
  const resolved = resolve(dir, options);
  if (!('files' in resolved)) return resolved;
  const { files, node } = resolved;
  if (options.from !== undefined) return showRelease(node, options.from, options);
  if (options.service !== undefined && !hasService(files, options.service)) return [noService(options.service, dir)];
  const tools = options.tool === undefined ? toolsInOrder : [options.tool];
  const host = new ShownHost(node, facts);
  const parts: ToolText[] = [];
  for (const tool of tools) {
    const text = textOf(node, tool, options, host);
    if (typeof text !== 'string') return text;
    parts.push({ tool, text });
  }
  if (!facts) say(printHostNotes(hostNotes(node, linesOf(node, tools, options))));
  if (options.layout === 'tree' && options.service !== undefined) say(namesNote);
  return { node, parts };
}

/** A node of a bundle, from the files that are needed. */
function resolve(
  dir: string,
  options: ShowOptions,
): { readonly files: BundleFiles; readonly node: ResolvedNode } | readonly Problem[] {
  const all = reading(dir, () => readTree(dir));
  if (!(all instanceof Map)) return [all as Problem];
  reportProblems(incomplete(dir, all));
  const isWanted = wanted(options);
  const files = new Map([...(all as BundleFiles)].filter(([path]) => isWanted(path)));
  const node = resolveNode(files, options.node);
  return 'version' in node ? { files, node } : node;
}

/** The transactions that bring a node in mode nftables from one bundle to another. */
function showRelease(
  node: ResolvedNode,
  from: string,
  options: ShowOptions,
): { readonly node: ResolvedNode; readonly parts: readonly ToolText[] } | readonly Problem[] {
  const before = resolve(from, options);
  if (!('files' in before)) return before;
  const states: NftState[] = [];
  for (const [dir, { nft }] of [[from, before.node] as const, ['the bundle', node] as const]) {
    if (!nft) return [noNftTable(node.node, dir)];
    const state = readNft(nft);
    if ('problems' in state) return state.problems;
    states.push(state);
  }
  const [old, desired] = states as [NftState, NftState];
  return { node, parts: nftPhases(old, desired).map((phase) => ({ tool: 'nft' as const, ...phase })) };
}

const wrongFrom: Problem = {
  code: 'CONFIG_UNSUPPORTED',
  level: 'error',
  message: 'Cannot show a release: --from needs --tool nft, and takes no --service',
  hint: 'A release goes in as transactions in mode nftables alone: add --tool nft, and remove --service',
};

function noNftTable(node: string, dir: string): Problem {
  return {
    code: 'CONFIG_UNSUPPORTED',
    level: 'error',
    message: `Cannot show a release of node ${node}: its profile in ${dir} is not in mode nftables`,
    hint: 'A change of the mode loads the whole table: remove --from',
  };
}

/** In the order of loading: rules refer to sets. */
const toolsInOrder = ['ipset', 'iptables', 'ip6tables', 'ipvs', 'nft', 'sysctl'] as const satisfies readonly ShowTool[];
const loaders = {
  ipset: 'ipset restore -exist',
  ipvs: 'ipvsadm -R',
  iptables: 'iptables-restore --noflush',
  ip6tables: 'ip6tables-restore --noflush',
  nft: 'nft -f -',
  sysctl: 'sysctl -p -',
} as const satisfies Record<ShowTool, string>;

function textOf(
  node: ResolvedNode,
  tool: ShowTool,
  options: ShowOptions,
  host: ShownHost,
): string | readonly Problem[] {
  if (tool === 'sysctl') return sysctlText(node, options, host);
  if (tool === 'nft') return nftText(node, options);
  if (tool === 'ipset' || tool === 'ipvs') return virtualText(node, tool, options, host);
  return rulesText(node, tool, options, host);
}

/** The lines of the bundle that are shown for these tools. */
function linesOf(node: ResolvedNode, tools: readonly ShowTool[], { service, layout }: ShowOptions): ShownLines {
  const lines = tools.flatMap((tool) => {
    // Lines of `.nft` files do not depend on the machine.
    if (tool === 'sysctl' || tool === 'nft') return [];
    if (tool === 'ipset' || tool === 'ipvs')
      return node.ipvs?.[tool].flatMap((file) => file.lines.map(({ text }) => text)) ?? [];
    const rules = node.rules[familyOf[tool]];
    return rules ? tableNames.flatMap((table) => rules[table].rules) : [];
  });
  const isWhole = service === undefined;
  return {
    lines,
    sysctls: isWhole && tools.includes('sysctl') ? node.sysctls : [],
    hasSets: isWhole && node.ipvs !== undefined && tools.includes('ipset'),
    isTree: layout === 'tree' && lines.length > 0,
  };
}

/**
 * Selects the files that are needed: a mistake in another Service does not hide this one. Layout `tree` needs all, because the rule that
 * leads to a Service is in a chain with those of its neighbours, named after their common content.
 */
function wanted({ node, service, layout }: ShowOptions): (path: string) => boolean {
  return (path) => {
    if (path === clusterFile || path === nodeFile(node) || path.endsWith('/profile.yaml')) return true;
    if (!path.startsWith('profiles/')) return path.startsWith('nodes/');
    return service === undefined || layout === 'tree' || path.includes(`/services/${service}.`);
  };
}

function hasService(files: BundleFiles, service: string): boolean {
  return toolsInOrder.some((tool) => [...files.keys()].some((path) => path.endsWith(`/services/${service}.${tool}`)));
}

function rulesText(node: ResolvedNode, tool: Tool, options: ShowOptions, host: ShownHost): string | readonly Problem[] {
  const family = familyOf[tool];
  const rules = node.rules[family];
  if (rules === undefined || node.profile.mode === 'nftables') return '';
  const filled = fillRules(rules, host.values(family));
  if ('code' in filled) return [filled];
  if (options.layout === 'tree') return treeText(node, filled, family, options.service, host.facts);
  if (options.service !== undefined) {
    const sections = tableNames.map((table) => ({ table, ...filled[table] }));
    return sections
      .filter((section) => section.chains.length + section.rules.length > 0)
      .map(printSection)
      .join('');
  }
  const linked = linkFlat(filled, family, undefined, node.profile.mode);
  return linked.problems.length > 0 ? linked.problems : printProgram(linked.program);
}

function treeText(
  node: ResolvedNode,
  rules: ResolvedRules,
  family: Family,
  service: string | undefined,
  facts: HostFacts | undefined,
): string | readonly Problem[] {
  if (node.profile.mode !== 'iptables') return [noTree(node)];
  const known = facts ? { knowsBpf: facts.knowsBpf, provideKubeChains: facts.providesKubeChains } : {};
  const linked = linkTree(sectionsOf(rules), { family, ...known });
  if (linked.problems.length > 0) return linked.problems;
  const program = settledProgram(linked.program);
  if (service === undefined) return printProgram(program);
  return tableNames.map((table) => printPart(table, partOfService(program[table], service))).join('');
}

/** Why a chain name may differ on the node (`ChainNamer` in packages/netfilter/src/link/tree/names.ts). */
const namesNote = `note: the two characters after the dot of a chain name are a hash of the chain's content; a node whose kernel already has the name with
    other content uses the next two, and a node without -m bpf has a chain for each endpoint: \`sluiced show\` prints a node's own names
`;

function noTree({ node, profile }: ResolvedNode): Problem {
  return {
    code: 'CONFIG_UNSUPPORTED',
    level: 'error',
    message: `Cannot show node ${node} in layout tree: its profile has mode ${profile.mode}`,
    hint: 'Remove --layout: layout tree is for mode iptables',
  };
}

/** Sets or virtual servers: the lines of one Service, or all of them merged. */
function virtualText(
  node: ResolvedNode,
  tool: VirtualTool,
  options: ShowOptions,
  host: ShownHost,
): string | readonly Problem[] {
  if (!node.ipvs) return '';
  if (options.service !== undefined) return fileLines(node.ipvs[tool], tool, host.ipvs);
  const state = readIpvs(node.ipvs, node.profile.families, host.ipvs);
  if ('problems' in state) return state.problems;
  return tool === 'ipset' ? printSets(state) : printServers(state);
}

function fileLines(files: ResolvedVirtual['ipset'], tool: VirtualTool, host: IpvsHost): string {
  const lines = files.flatMap((file) => file.lines.map(({ text }) => text));
  return lines
    .flatMap((text) => fillHost(text, { nodePortAddresses: host[lineFamily(tool, text)].nodePortAddresses }))
    .map((line) => `${line}\n`)
    .join('');
}

/** The table with all elements, for a kernel without it; of one Service its elements and the chains of their lists. */
function nftText({ nft }: ResolvedNode, { service }: ShowOptions): string | readonly Problem[] {
  if (!nft) return '';
  const state = service === undefined ? readNft(nft) : readNftFiles(nft);
  if ('problems' in state) return state.problems;
  return service === undefined ? printNft(state) : printFrontends(state);
}

const sysctlText = (node: ResolvedNode, { service }: ShowOptions, host: ShownHost): string =>
  service === undefined
    ? node.sysctls
        .flatMap((line) => host.sysctl(line))
        .map((line) => `${line}\n`)
        .join('')
    : '';

function noService(service: string, dir: string): Problem {
  return {
    code: 'BUNDLE_INVALID',
    level: 'error',
    message: `Cannot show Service ${service}: the bundle in ${dir} has no rules for it in the profile of this node`,
    hint: 'Write it as <namespace>/<name>; headless and ExternalName Services have no rules',
  };
}
