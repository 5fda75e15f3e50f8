import { readOrStop } from '../../bundle/node.ts';
import { orStop, Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { type BundleFiles, clusterFile, nodeFile, type ResolvedNode, resolveNode } from '@sluice/bundle';
import type { Format } from '@sluice/cli';
import {
  fillHost,
  type IpvsHost,
  lineFamily,
  namesNear,
  printServers,
  printSets,
  type Problem,
  readIpvs,
  refusal,
  type ResolvedVirtual,
  type VirtualTool,
} from '@sluice/netfilter';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { servicesIn } from '@sluice/renderer/load/names.ts';
import { bundleAt } from '@sluice/renderer/commands/bundle/bundle-at.ts';
import { incomplete } from '@sluice/renderer/commands/bundle/complete.ts';
import { printDocument, reportProblems } from '@sluice/renderer/commands/output/output.ts';
import { print, say } from '@sluice/renderer/commands/output/progress.ts';
import { hostNotes, printHostNotes, readHostFile, ShownHost, type ShownLines } from './host.ts';
import { rulesTool } from './iptables.ts';
import type { NftPhase } from './nft-phases.ts';
import { releasePhases, tableTool } from './nftables.ts';
import type { Shown, ShownTool, ShowTool } from './tool.ts';

const loaders = { ipset: 'ipset restore -exist', ipvs: 'ipvsadm -R' } as const satisfies Record<VirtualTool, string>;

/** The sets, or the virtual servers, of mode ipvs. */
const virtualTool = (tool: VirtualTool): ShownTool => ({
  loader: loaders[tool],
  text: (node, shown, host) => virtualText(node, tool, shown, host),
  lines: ({ ipvs }) => ipvs?.[tool].flatMap((file) => file.lines.map(({ text }) => text)) ?? [],
});

/** Sets or virtual servers: the lines of one Service, or all of them merged. */
function virtualText(node: ResolvedNode, tool: VirtualTool, options: Shown, host: ShownHost): string {
  if (!node.ipvs) return '';
  if (options.service !== undefined) return fileLines(node.ipvs[tool], tool, host.ipvs);
  const state = readOrStop(readIpvs(node.ipvs, node.profile.families, host.ipvs));
  return tool === 'ipset' ? printSets(state) : printServers(state);
}

function fileLines(files: ResolvedVirtual['ipset'], tool: VirtualTool, host: IpvsHost): string {
  const lines = files.flatMap((file) => file.lines.map(({ text }) => text));
  return lines
    .flatMap((text) => fillHost(text, { nodePortAddresses: host[lineFamily(tool, text)].nodePortAddresses }))
    .map((line) => `${line}\n`)
    .join('');
}

interface ShowOptions extends Shown {
  readonly node: string;
  /** A file of `sluiced observe`. */
  readonly host?: string;
  readonly tool?: ShowTool;
  /** Another bundle directory. */
  readonly from?: string;
  readonly output?: Format;
}

/** `sluice show`: prints the resolved rules of a node as native text. */
export function showCommand(dir: string, options: ShowOptions): number {
  const { node, parts } = show(dir, options);
  if (options.output === 'json') printDocument('json', 'NodeText', { node: node.node, version: node.version, parts });
  else print(parts.map((part) => printOfTool(part, parts.length > 1)).join(''));
  return exitCodes.done;
}

interface ShownNode {
  readonly node: ResolvedNode;
  readonly parts: readonly ToolText[];
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
  return isOfSeveral && text !== '' ? `# ${shownTools[tool].loader}\n${text}` : text;
};

function show(dir: string, options: ShowOptions): ShownNode {
  const facts = options.host === undefined ? undefined : orStop(readHostFile(options.host, options.node));
  if (options.from !== undefined && (options.tool !== 'nft' || options.service !== undefined))
    throw new Stopped(wrongFrom);
  const { all, node } = resolve(dir, options);
  if (options.from !== undefined) return showRelease(node, options.from, options);
  if (options.service !== undefined && !hasService(all, options.service))
    throw new Stopped(noService(options.service, dir, all));
  const tools = options.tool === undefined ? toolsInOrder : [options.tool];
  const host = new ShownHost(node, facts);
  const parts = tools.map((tool) => ({ tool, text: shownTools[tool].text(node, options, host) }));
  if (!facts) say(printHostNotes(hostNotes(node, linesOf(node, tools, options))));
  if (options.layout === 'tree' && options.service !== undefined) say(namesNote);
  return { node, parts };
}

/** A node of a bundle, from the files that are needed. */
function resolve(dir: string, options: ShowOptions): { readonly all: BundleFiles; readonly node: ResolvedNode } {
  const all = bundleAt(dir);
  reportProblems(incomplete(dir, all));
  const isWanted = wanted(options);
  const node = resolveNode(new Map([...all].filter(([path]) => isWanted(path))), options.node);
  if (!('version' in node)) throw new Stopped(node);
  return { all, node };
}

/** The transactions that bring a node from one bundle to another. */
function showRelease(node: ResolvedNode, from: string, options: ShowOptions): ShownNode {
  const phases = releasePhases([from, resolve(from, options).node], node);
  return { node, parts: phases.map((phase) => ({ tool: 'nft', ...phase })) };
}

const wrongFrom = refusal(
  'CONFIG_UNSUPPORTED',
  'Cannot show a release: --from needs --tool nft, and takes no --service',
  'A release goes in as transactions in mode nftables alone: add --tool nft, and remove --service',
);

/** The lines of the bundle that are shown for these tools. */
function linesOf(node: ResolvedNode, tools: readonly ShowTool[], { service, layout }: ShowOptions): ShownLines {
  const lines = tools.flatMap((tool) => shownTools[tool].lines(node));
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

/** Why a chain name may differ on the node (`ChainNamer` in packages/netfilter/src/link/tree/names.ts). */
const namesNote = `note: the two characters after the dot of a chain name are a hash of the chain's content; a node whose kernel already has the name with
    other content uses the next two, and a node without -m bpf has a chain for each endpoint: \`sluiced show\` prints a node's own names
`;

const noService = (service: string, dir: string, files: BundleFiles): Problem =>
  refusal(
    'BUNDLE_INVALID',
    `Cannot show Service ${service}: the bundle in ${dir} has no rules for it in the profile of this node`,
    `Rules are there for ${namesNear(service, servicesIn(files)) || 'no Service'}; headless and ExternalName Services have none`,
  );

/** The tools in the order of loading: rules refer to sets. */
const shownTools = {
  ipset: virtualTool('ipset'),
  iptables: rulesTool('iptables'),
  ip6tables: rulesTool('ip6tables'),
  ipvs: virtualTool('ipvs'),
  nft: tableTool,
  sysctl: { loader: 'sysctl -p -', text: sysctlText, lines: () => [] },
} as const satisfies Record<ShowTool, ShownTool>;

const toolsInOrder = Object.keys(shownTools) as readonly ShowTool[];

function sysctlText(node: ResolvedNode, { service }: Shown, host: ShownHost): string {
  if (service !== undefined) return '';
  const lines = node.sysctls.flatMap((line) => host.sysctl(line));
  return lines.map((line) => `${line}\n`).join('');
}
