import { type BundleFiles, ResolveCache, type ResolvedFiles, resolveSections } from '@sluice/bundle';
import {
  chainOf,
  compareText,
  type Family,
  type FamilyProgram,
  getOrInsert,
  ipvsHost,
  type IpvsState,
  type Mode,
  modeFacts,
  perObject,
  printProgram,
  printServers,
  printSets,
  readIpvs,
  readNft,
  type ResolvedSection,
  Stopped,
  type TableProgram,
  targetOf,
} from '@sluice/netfilter';
import { nodesOfProfile, factOf, nodeOf, readOrStop } from '../bundle/node.ts';
import { type Layout, linkedTree } from '../flows/layout.ts';
import { type IptablesBackend, type NodeLoad, loadSeconds } from './load-model.ts';
import { filled, hostOf, linkedFlat } from '../flows/program.ts';
import { type BundleView, viewOf } from '../bundle/view.ts';
import { tableCost } from './table-cost.ts';

/** The cost of rules on the nodes of one profile. */
export interface NodeCost extends NodeLoad {
  readonly profile: string;
  readonly layout: Layout;
  /** The profile's node with the most rules. */
  readonly node: string;
  readonly nodes: number;
  /** The size of all input to iptables-restore, ipset, ipvsadm and nft. */
  readonly bytes: number;
  /** The most rules that the first packet of a connection from outside is compared with. */
  readonly longestWalk: number;
  readonly loadSeconds: Readonly<Record<IptablesBackend, number>>;
}

/**
 * Estimates what a bundle costs its nodes. Each profile is represented by its most expensive node.
 * @param layout of nodes of mode iptables; other modes have one
 * @returns the costs by profile
 * @throws Stopped with the problems for which nodes would refuse the rules
 */
export function costOf(files: BundleFiles, layout: Layout = 'flat'): readonly NodeCost[] {
  const view = viewOf(files);
  const cache = new ResolveCache();
  const profiles = [...view.profiles.keys()].toSorted(compareText);
  return profiles.flatMap((profile) => costOfProfile(view, profile, cache, layout));
}

function costOfProfile(view: BundleView, profile: string, cache: ResolveCache, layout: Layout): readonly NodeCost[] {
  const names = nodesOfProfile(view, profile);
  let dearest: { readonly size: number; readonly node: ResolvedFiles } | undefined;
  for (const name of names) {
    const node = resolveSections(view.files, name, cache);
    if (!('version' in node)) throw new Stopped(node);
    const size = sizeOf(node);
    if (dearest === undefined || size > dearest.size) dearest = { size, node };
  }
  if (!dearest) return [];
  const { node } = dearest;
  const used = modeFacts[node.profile.mode].hasServiceChains ? layout : 'flat';
  return [{ profile, layout: used, node: node.node, nodes: names.length, ...costOfNode(view, node, used) }];
}

/** Line counts of files, which many nodes share. */
const linesOf = perObject((file: readonly ResolvedSection[]) => file.reduce((all, { rules }) => all + rules.length, 0));

/** The number of lines that a node loads. Linking does not change which of two nodes has more. */
function sizeOf({ sections, ipvs, nft = [] }: ResolvedFiles): number {
  const rules = [...sections.values()].flat().reduce((sum, file) => sum + linesOf(file), 0);
  const virtual = [...(ipvs?.ipset ?? []), ...(ipvs?.ipvs ?? []), ...nft].reduce(
    (sum, { lines }) => sum + lines.length,
    0,
  );
  return rules + virtual;
}

type Counted = Omit<NodeCost, 'profile' | 'node' | 'nodes' | 'layout'>;

function costOfNode(view: BundleView, node: ResolvedFiles, layout: Layout): Counted {
  if (node.nft) return costOfTable(node.nft, layout);
  const programs = [...node.sections].map(([family, files]) => link(view, node, family, files, layout));
  const ipvs = stateOf(view, node);
  const tables = programs.flatMap((program) => [program.filter, program.nat]);
  const load: NodeLoad = {
    rules: tables.reduce((sum, { chains, jumps }) => sum + jumps.length + rulesIn(chains), 0),
    chains: tables.reduce((sum, { chains }) => sum + chains.size, 0),
    ...(ipvs === undefined ? {} : { virtual: virtualLoad(ipvs) }),
  };
  const texts = [...programs.map(printProgram), ...(ipvs === undefined ? [] : [printSets(ipvs), printServers(ipvs)])];
  return {
    ...load,
    bytes: texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0),
    longestWalk: Math.max(0, ...programs.map((program) => longestWalk(program, node.profile.mode))),
    loadSeconds: { nft: loadSeconds('nft', layout, load), legacy: loadSeconds('legacy', layout, load) },
  };
}

function costOfTable(files: NonNullable<ResolvedFiles['nft']>, layout: Layout): Counted {
  const { load, ...rest } = tableCost(readOrStop(readNft(files)));
  const seconds = loadSeconds('nft', layout, load);
  return { ...load, ...rest, loadSeconds: { nft: seconds, legacy: seconds } };
}

function link(
  view: BundleView,
  { node, profile }: ResolvedFiles,
  family: Family,
  files: readonly (readonly ResolvedSection[])[],
  layout: Layout,
): FamilyProgram {
  const host = hostOf(nodeOf(view, node), family);
  if (layout === 'tree') return linkedTree(files, { family, host });
  return linkedFlat(view, filled(files.flat(), host), family, profile.mode);
}

function stateOf(view: BundleView, { node, ipvs, profile }: ResolvedFiles): IpvsState | undefined {
  if (!ipvs) return undefined;
  const known = nodeOf(view, node);
  const own = (family: Family): readonly string[] => [factOf(known, family, 'address') ?? []].flat();
  const host = ipvsHost(profile, { ipv4: own('ipv4'), ipv6: own('ipv6') });
  return readOrStop(readIpvs(ipvs, profile.families, host));
}

function virtualLoad({ virtualServers, sets, addresses }: IpvsState): NonNullable<NodeLoad['virtual']> {
  return {
    servers: virtualServers.size,
    realServers: [...virtualServers.values()].reduce((sum, { real }) => sum + real.size, 0),
    entries: [...sets.values()].reduce((sum, { entries }) => sum + entries.size, 0),
    addresses: addresses.ipv4.length + addresses.ipv6.length,
  };
}

const rulesIn = (chains: ReadonlyMap<string, readonly string[]>): number =>
  [...chains.values()].reduce((sum, lines) => sum + lines.length, 0);

/** The built-in chains that a connection from outside traverses; packets that IPVS forwards leave through OUTPUT. */
const entryChains = {
  iptables: [
    ['nat', 'PREROUTING'],
    ['filter', 'FORWARD'],
    ['nat', 'POSTROUTING'],
  ],
  ipvs: [
    ['nat', 'PREROUTING'],
    ['filter', 'INPUT'],
    ['filter', 'OUTPUT'],
    ['nat', 'POSTROUTING'],
  ],
  nftables: [],
} as const satisfies Readonly<Record<Mode, readonly (readonly [keyof FamilyProgram, string])[]>>;

/** The most rules that the first packet of a connection from outside is compared with: no rule ends the walk early. */
function longestWalk(program: FamilyProgram, mode: Mode): number {
  return entryChains[mode].reduce((sum, [table, hook]) => sum + through(program[table], hook), 0);
}

function through({ chains, jumps }: TableProgram, hook: string): number {
  const memo = new Map<string, number>();
  const own = jumps.filter((jump) => chainOf(jump) === hook);
  return own.reduce((sum, jump) => sum + 1 + depthOf(targetOf(jump) ?? '', chains, memo), 0);
}

/** All rules of a chain and the longest of the chains that they jump to. */
function depthOf(chain: string, chains: TableProgram['chains'], memo: Map<string, number>): number {
  return getOrInsert(memo, chain, () => {
    const lines = chains.get(chain) ?? [];
    const below = lines.map((line) => targetOf(line) ?? '').filter((target) => chains.has(target));
    return below.reduce((most, target) => Math.max(most, depthOf(target, chains, memo)), 0) + lines.length;
  });
}
