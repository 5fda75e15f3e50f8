import { readdirSync, readFileSync } from 'node:fs';
import { isIPv6 } from 'node:net';
import { join } from 'node:path';
import {
  cidrContains,
  emptyProgram,
  type Family,
  type FamilyProgram,
  fillRules,
  ipvsHost,
  type IpvsState,
  type LinkedFlat,
  linkFlat,
  linkTree,
  type NftState,
  readIpvs,
  readNft,
  type ResolvedRules,
  type ResolvedVirtual,
  type ResolvedVirtualFile,
  sectionsOf,
  settledProgram,
} from '@sluice/netfilter';
import { nodesOf, type ProfileFile, type ResolvedNode, resolveNode, valueOf } from '@sluice/bundle';
import { programPath } from '@sluice/testing';
import { execa } from 'execa';
import type { Host } from './cluster-host.ts';

const sluice = programPath('sluice');

export type Layout = 'flat' | 'tree';

/** The programs of a node: its rules per family, and in mode ipvs its virtual servers and sets; in mode nftables one table instead. */
export type Programs = { readonly [F in Family]?: FamilyProgram } & {
  /** @param addresses of the node's interfaces */
  readonly ipvs?: (addresses: readonly string[]) => IpvsState;
  readonly nft?: NftState;
};

/** The program of a node in mode nftables, which has no rules of other tools. */
export const nftPrograms = (nft: NftState): Programs => ({ ipv4: emptyProgram, ipv6: emptyProgram, nft });

/** The programs of every node of a bundle directory, by the node's name, as the linker makes them. */
export function programsOf(bundle: string, layout: Layout = 'flat'): ReadonlyMap<string, Programs> {
  const entries = readdirSync(bundle, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = entries.map((entry) => join(entry.parentPath, entry.name));
  const files = new Map(paths.map((path) => [path.slice(bundle.length + 1), readFileSync(path, 'utf8')]));
  return new Map(nodesOf(files).map((node) => [node, programsOfNode(files, node, layout)]));
}

/** The programs of one node of a bundle. @param files by path */
export function programsOfNode(files: ReadonlyMap<string, string>, node: string, layout: Layout): Programs {
  const resolved = resolveNode(files, node);
  if (!('rules' in resolved)) throw new Error(`Cannot resolve ${node}: ${resolved.map((p) => p.message).join('; ')}`);
  const programs: { [F in Family]?: FamilyProgram } = {};
  const { ipvs, nft, profile } = resolved;
  if (nft) return nftPrograms(nftOf(nft));
  for (const family of ['ipv4', 'ipv6'] as const) {
    const rules = filledRules(resolved, family);
    if (!rules) continue;
    const { program, problems } =
      layout === 'tree' && !ipvs
        ? linkSettled(rules, family)
        : // The rules of mode ipvs are few and fixed: layout tree is for mode iptables.
          linkFlat(rules, family, undefined, profile.mode);
    if (problems.length > 0) throw new Error(`Cannot link ${node}: ${problems.map((p) => p.message).join('; ')}`);
    programs[family] = program;
  }
  return ipvs ? { ...programs, ipvs: (addresses) => ipvsOf(ipvs, profile, addresses) } : programs;
}

/** A machine has the address of its node and those of loopback. */
function filledRules({ rules, profile, nodeFile }: ResolvedNode, family: Family): ResolvedRules | undefined {
  const own = rules[family];
  if (!own) return undefined;
  const address = valueOf(nodeFile.values, family, 'address');
  const addresses = [...(typeof address === 'string' ? [address] : []), family === 'ipv4' ? '127.0.0.1' : '::1'];
  const isOpen = (one: string): boolean => profile.nodePortAddresses.some((cidr) => cidrContains(cidr, one));
  const filled = fillRules(own, { nodePortAddresses: addresses.filter(isOpen) });
  if ('code' in filled) throw new Error(filled.message);
  return filled;
}

function ipvsOf(ipvs: ResolvedVirtual, profile: ProfileFile, addresses: readonly string[]): IpvsState {
  const of = (family: Family): readonly string[] =>
    addresses.filter((address) => isIPv6(address) === (family === 'ipv6'));
  const state = readIpvs(ipvs, profile.families, ipvsHost(profile, { ipv4: of('ipv4'), ipv6: of('ipv6') }));
  if ('problems' in state) throw new Error(`Cannot read: ${state.problems.map((p) => p.message).join('; ')}`);
  return state;
}

function nftOf(files: readonly ResolvedVirtualFile[]): NftState {
  const state = readNft(files);
  if ('problems' in state) throw new Error(`Cannot read: ${state.problems.map((p) => p.message).join('; ')}`);
  return state;
}

function linkSettled(rules: ResolvedRules, family: Family): LinkedFlat {
  const { program, problems } = linkTree(sectionsOf(rules), { family });
  return { program: settledProgram(program), problems };
}

const shown = new Map<string, Promise<string>>();

/** The output of `sluice show`, run once: both backends load the same text. */
function show(bundle: string, node: string, tool: string): Promise<string> {
  const key = JSON.stringify([bundle, node, tool]);
  const started =
    shown.get(key) ??
    execa(process.execPath, [sluice, 'show', bundle, '--node', node, '--tool', tool]).then(
      ({ stdout }) => `${stdout}\n`,
    );
  shown.set(key, started);
  return started;
}

/**
 * Loads a node's rules and sysctls as an operator would in an emergency: `sluice show | iptables-restore`, `sluice show | nft -f -`.
 * @param backend which of the two iptables
 */
export async function loadNode(bundle: string, node: Host, backend: 'nft' | 'legacy'): Promise<void> {
  for (const tool of ['iptables', 'ip6tables'] as const) {
    await node.run([`${tool}-${backend}-restore`, '--noflush'], { input: await show(bundle, node.name, tool) });
  }
  const table = await show(bundle, node.name, 'nft');
  if (table.includes('table ')) await node.run(['nft', '-f', '-'], { input: table });
  const values = Object.entries(await sysctlsOf(bundle, node.name));
  await node.sysctl(Object.fromEntries(values.filter(([key]) => key.startsWith('net/ipv4/conf/'))));
}

/** A node's sysctls as paths below /proc/sys, with their values. */
export async function sysctlsOf(bundle: string, node: string): Promise<Readonly<Record<string, string>>> {
  const lines = (await show(bundle, node, 'sysctl')).split('\n').filter((line) => line.includes(' = '));
  const values = lines.map((line) => line.split(' = ') as [string, string]);
  return Object.fromEntries(values.map(([key, value]) => [key.replaceAll('.', '/'), value]));
}
