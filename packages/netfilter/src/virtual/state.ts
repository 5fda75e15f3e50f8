import { addAll } from '../add-all.ts';
import { compareText, FileProblems, type Problem } from '../problem.ts';
import { fillHost } from '../rules/host-values.ts';
import type { Family } from '../family.ts';
import { parseAddress } from '../rules/address.ts';
import { cidrContains } from '../rules/cidr.ts';
import { printEndpoint, type RuleError } from '../rules/rule.ts';
import { readSetLine, type SetLine } from './read-ipset.ts';
import { readServerLine, type ServerLine } from './read-ipvs.ts';
import { lineFamily, refusedLine, type ResolvedVirtual, type ResolvedVirtualFile } from './line.ts';
import { addressSet, nodePortSets, setKeys, setName } from '../rules/sets.ts';
import {
  type IpSet,
  type IpvsState,
  type IpvsTimeouts,
  type RealServer,
  type VirtualServer,
  virtualKey,
} from './values.ts';

/** The machine's values per family. `ipvsHost` makes it. */
export type IpvsHost = Readonly<
  Record<Family, { readonly nodePortAddresses: readonly string[]; readonly own: readonly string[] }>
>;

/** Addresses that are never frontends: loopback, and link-local ones of IPv6. */
const excluded = ['127.0.0.0/8', '::1/128', 'fe80::/10'];

/**
 * The values of `${host.*}` in mode ipvs.
 * @param addresses those of the machine's interfaces without `kube-ipvs0`
 */
export function ipvsHost(
  profile: { readonly nodePortAddresses: readonly string[] },
  addresses: Readonly<Record<Family, readonly string[]>>,
): IpvsHost {
  const of = (family: Family): IpvsHost[Family] => {
    const own = addresses[family].filter((address) => !excluded.some((cidr) => cidrContains(cidr, address)));
    const chosen = profile.nodePortAddresses.filter(
      (cidr) => parseAddress(cidr.split('/')[0] ?? '')?.family === family,
    );
    const isOpen = (address: string): boolean => chosen.some((cidr) => cidrContains(cidr, address));
    return { own, nodePortAddresses: profile.nodePortAddresses.length === 0 ? own : own.filter(isOpen) };
  };
  return { ipv4: of('ipv4'), ipv6: of('ipv6') };
}

/** The state under construction. */
interface IpvsBuilder {
  readonly sets: Map<string, Omit<IpSet, 'entries'> & { readonly entries: Set<string> }>;
  readonly servers: Map<string, Omit<VirtualServer, 'real'> & { readonly real: Map<string, RealServer> }>;
  timeouts?: IpvsTimeouts;
}

/**
 * Reads the virtual servers, sets and addresses of a node.
 * @param resolved `ResolvedNode.ipvs`
 * @param families of the profile
 * @returns the state, or every problem (`RULE_REFUSED`, with its line)
 */
export function readIpvs(
  resolved: ResolvedVirtual,
  families: readonly Family[],
  host: IpvsHost,
): IpvsState | { readonly problems: readonly Problem[] } {
  const building: IpvsBuilder = { sets: new Map(), servers: new Map() };
  const problems: Problem[] = [];
  for (const file of resolved.ipset)
    for (const { line, value } of readLines(file, 'ipset', host, problems))
      complain(problems, file, line, addSetLine(building, value as SetLine));
  for (const file of resolved.ipvs)
    for (const { line, value } of readLines(file, 'ipvs', host, problems))
      complain(problems, file, line, addServerLine(building, value as ServerLine));
  for (const name of missingSets(building, families)) {
    const path = resolved.ipset[0]?.path ?? 'base/first.ipset';
    problems.push(refusedLine(path, 1, `set ${name} is not created, but rules may match it`));
  }
  if (problems.length > 0) return { problems };
  for (const family of families) closeNodePorts(building, family, host);
  const addresses = { ipv4: bindable(building, 'ipv4', host), ipv6: bindable(building, 'ipv6', host) };
  const { sets, servers, timeouts } = building;
  return { virtualServers: servers, sets, addresses, ...(timeouts ? { timeouts } : {}) };
}

/**
 * The keys of the virtual servers that each file declares, by its path. After `readIpvs` it reads no line again.
 * @param resolved what `readIpvs` reads without problems
 */
export function serversByFile(resolved: ResolvedVirtual, host: IpvsHost): ReadonlyMap<string, readonly string[]> {
  const keysOf = (file: ResolvedVirtualFile): readonly string[] =>
    readLines(file, 'ipvs', host, []).flatMap(({ value }) =>
      value.kind === 'virtual' ? [virtualKey(value.server)] : [],
    );
  return new Map(resolved.ipvs.map((file) => [file.path, keysOf(file)]));
}

function complain(problems: Problem[], file: ResolvedVirtualFile, line: number, wrong: string | undefined): void {
  if (wrong !== undefined) problems.push(refusedLine(file.path, line, wrong));
}

interface ParsedLine {
  readonly line: number;
  readonly value: SetLine | ServerLine;
}

/** The parsed lines of unchanged files, with the machine's values that they depend on. */
const known = new WeakMap<
  readonly ResolvedVirtualFile['lines'][number][],
  { readonly host: string; readonly read: readonly ParsedLine[] }
>();

function readLines(
  file: ResolvedVirtualFile,
  tool: 'ipset' | 'ipvs',
  host: IpvsHost,
  problems: Problem[],
): readonly ParsedLine[] {
  const key = JSON.stringify([host.ipv4.nodePortAddresses, host.ipv6.nodePortAddresses]);
  const before = known.get(file.lines);
  if (before?.host === key) return before.read;
  const found = new FileProblems();
  const read: ParsedLine[] = [];
  for (const { text, line } of file.lines) {
    for (const filled of fillHost(text, { nodePortAddresses: host[lineFamily(tool, text)].nodePortAddresses })) {
      const value: SetLine | ServerLine | RuleError = tool === 'ipset' ? readSetLine(filled) : readServerLine(filled);
      if ('error' in value) found.add(refusedLine(file.path, line, value.error));
      else read.push({ line, value });
    }
  }
  addAll(problems, found.all);
  if (found.isEmpty) known.set(file.lines, { host: key, read });
  return read;
}

function addSetLine({ sets }: IpvsBuilder, value: SetLine): string | undefined {
  if (value.kind === 'create') {
    if (sets.has(value.set.name)) return `set ${value.set.name} is created twice`;
    sets.set(value.set.name, { ...value.set, entries: new Set() });
    return undefined;
  }
  const set = sets.get(value.name);
  if (!set) return `set ${value.name} is not created before`;
  set.entries.add(value.entry);
  const capacity = set.maxElements ?? Number.POSITIVE_INFINITY;
  return set.entries.size === capacity + 1 ? `set ${value.name} exceeds its limit of ${capacity} entries` : undefined;
}

function addServerLine(building: IpvsBuilder, value: ServerLine): string | undefined {
  if (value.kind === 'timeouts') {
    building.timeouts = value.timeouts;
    return undefined;
  }
  if (value.kind === 'virtual') {
    const key = virtualKey(value.server);
    if (building.servers.has(key)) return `virtual server ${key} is declared twice`;
    building.servers.set(key, { ...value.server, real: new Map() });
    return undefined;
  }
  const key = virtualKey(value.of);
  const real = building.servers.get(key)?.real;
  const endpoint = printEndpoint(value.server.address, value.server.port);
  if (!real) return `virtual server ${key} is not declared`;
  if (real.has(endpoint)) return `virtual server ${key} has real server ${endpoint} twice`;
  real.set(endpoint, value.server);
  return undefined;
}

function missingSets({ sets }: IpvsBuilder, families: readonly Family[]): readonly string[] {
  return families.flatMap((family) => setKeys.map((key) => setName(key, family))).filter((name) => !sets.has(name));
}

/**
 * Where node ports are open on no address, such as with `nodePortAddresses: [localhost]`, kube-proxy leaves their sets empty
 * (`syncProxyRules` in `pkg/proxy/ipvs/proxier.go`). Most entries name no address: one without a virtual server at an address for node ports
 * goes. A virtual server elsewhere, such as of a ClusterIP with the same port, opens none.
 */
function closeNodePorts({ sets, servers }: IpvsBuilder, family: Family, host: IpvsHost): void {
  const addresses = new Set(host[family].nodePortAddresses);
  const here = [...servers.values()].filter(({ address }) => addresses.has(address));
  const open = new Set(here.map((server) => `${server.protocol} ${server.port}`));
  for (const [protocol, keys] of Object.entries(nodePortSets))
    for (const key of keys) {
      const entries = sets.get(setName(key, family))?.entries;
      for (const entry of entries ?? [])
        if (!open.has(`${protocol} ${entry.replace(/^.*:/, '')}`)) entries?.delete(entry);
    }
}

/** The addresses to bind. Addresses on another interface of the machine are removed from the set, so that they stay there. */
function bindable({ sets }: IpvsBuilder, family: Family, host: IpvsHost): readonly string[] {
  const entries = sets.get(setName(addressSet, family))?.entries;
  for (const address of host[family].own) entries?.delete(address);
  return [...(entries ?? [])].toSorted(compareText);
}
