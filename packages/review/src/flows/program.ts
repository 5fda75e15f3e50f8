import { baseFile, scopeProblems, readPath, resolveFile } from '@sluice/bundle';
import {
  cidrContains,
  emptyProgram,
  type Family,
  type FamilyProgram,
  fillHost,
  type HostValues,
  linkFlat,
  type Mode,
  type Packet,
  type ResolvedSection,
  Stopped,
  toolOf,
  type TableName,
  perKey,
} from '@sluice/netfilter';
import { loopback } from './destinations.ts';
import { nftStateOf } from './nft-state.ts';
import { addressesOf, type NodeOf, scopeOf } from '../bundle/node.ts';
import { rulesAt } from '../bundle/files.ts';
import { toolAt } from '../bundle/tools.ts';
import type { BundleView } from '../bundle/view.ts';
import type { NodeProgram } from './planes/plane.ts';
import { stateOf } from './virtual-state.ts';

/**
 * The program of a node as if the profile had only these Service files, with its base files, resolved and linked.
 * @throws Stopped with the problems of the files
 */
export function programOf(view: BundleView, node: NodeOf, family: Family, paths: readonly string[]): NodeProgram {
  return programs[node.profile.mode](view, node, family, paths);
}

const programs: Readonly<Record<Mode, typeof programOf>> = {
  iptables: (view, node, family, paths) => ({ rules: rulesOf(view, node, family, paths) }),
  ipvs: (view, node, family, paths) => {
    const isRules = (path: string): boolean => toolAt(path).tool === toolOf[family];
    const [ruled, others] = [paths.filter(isRules), paths.filter((path) => !isRules(path))];
    const rules = ruled.length === 0 ? plainRules(view, node, family) : rulesOf(view, node, family, ruled);
    return { rules, ipvs: stateOf(view, node, family, others) };
  },
  nftables: (view, node, _family, paths) => ({ rules: emptyProgram, nft: nftStateOf(view, node, paths) }),
};

/**
 * A packet as the node sends it. To an address that the node carries, the kernel uses that same address as the source, unless the
 * process binds another (`fib_select_path` and the local table's preferred source).
 */
export function asSent(packet: Packet, { ipvs }: NodeProgram): Packet {
  const isBound = packet.in === undefined && ipvs?.addresses[packet.family].includes(packet.destination);
  return isBound ? { ...packet, source: packet.destination } : packet;
}

/** In mode ipvs nearly all Services have no rules of their own, so they share a node's rules. */
const plain = perKey<BundleView, FamilyProgram>();
const plainRules = (view: BundleView, node: NodeOf, family: Family): FamilyProgram =>
  plain(view, `${node.name} ${family}`, () => rulesOf(view, node, family, []));

function rulesOf(view: BundleView, node: NodeOf, family: Family, paths: readonly string[]): FamilyProgram {
  const sections = sectionsAt(view, node, family, paths).flat();
  return view.memory.share(linkedFlat(view, sections, family, node.profile.mode), family);
}

/**
 * The program of sections whose host values are filled in.
 * @throws Stopped with the problems of the sections
 */
export function linkedFlat(
  view: BundleView,
  sections: readonly ResolvedSection[],
  family: Family,
  mode: Mode,
): FamilyProgram {
  const rules = { filter: tableOf(sections, 'filter'), nat: tableOf(sections, 'nat') };
  const { program, problems } = linkFlat(rules, family, (text, of) => view.memory.line(text, of), mode);
  if (problems.length > 0) throw new Stopped(problems);
  return program;
}

/**
 * The resolved sections of the base files and of some Service files between them, by file.
 * @throws Stopped with the problems of the files
 */
export function sectionsAt(
  view: BundleView,
  node: NodeOf,
  family: Family,
  paths: readonly string[],
): readonly (readonly ResolvedSection[])[] {
  const tool = toolOf[family];
  const profile = node.file.profile;
  const all = [baseFile(profile, 'first', tool), ...paths, baseFile(profile, 'last', tool)];
  return all.filter((path) => view.files.has(path)).map((path) => resolved(view, node, family, path));
}

/** Resolved base files: every slice has them. */
const bases = perKey<BundleView, readonly ResolvedSection[]>();

function resolved(view: BundleView, node: NodeOf, family: Family, path: string): readonly ResolvedSection[] {
  if (readPath(path)?.kind !== 'base') return resolvedFrom(view, node, family, path, 'service');
  return bases(view, `${node.name} ${path}`, () => resolvedFrom(view, node, family, path, 'base'));
}

function resolvedFrom(
  view: BundleView,
  node: NodeOf,
  family: Family,
  path: string,
  kind: 'base' | 'service',
): readonly ResolvedSection[] {
  const file = rulesAt(view, path);
  const sections = resolveFile(file, scopeOf(node, family), kind === 'base');
  const problems = scopeProblems(path, kind, file, sections, node.profile.mode);
  if (problems.length > 0) throw new Stopped(problems);
  return filled(sections, hostOf(node, family));
}

/** Sections with host values filled in. */
export function filled(sections: readonly ResolvedSection[], host: HostValues): readonly ResolvedSection[] {
  return sections.map((section) => ({ ...section, rules: section.rules.flatMap((rule) => fillHost(rule, host)) }));
}

/** Host values outside of the node: the addresses that are known of it, and loopback. */
export function hostOf(node: NodeOf, family: Family): HostValues {
  const addresses = [...new Set([...addressesOf(node, family), loopback[family]])];
  const isOpen = (address: string): boolean =>
    node.profile.nodePortAddresses.some((cidr) => cidrContains(cidr, address));
  return { nodePortAddresses: addresses.filter(isOpen) };
}

function tableOf(
  sections: readonly ResolvedSection[],
  table: TableName,
): { readonly chains: readonly string[]; readonly rules: readonly string[] } {
  const own = sections.filter((section) => section.table === table);
  return { chains: own.flatMap(({ chains }) => chains), rules: own.flatMap(({ rules }) => rules) };
}
