import {
  type Family,
  type IpSet,
  ipvsInterface,
  printServers,
  printSets,
  readServerLine,
  readSetLine,
  type RealServer,
  type VirtualServer,
  virtualKey,
  printEndpoint,
} from '@sluice/netfilter';
import { bindLine } from './plan.ts';
import type { NodeIpvs } from './values.ts';

/** A node's part of mode ipvs as texts, for a file. `ipvsFromText(ipvsToText(x))` is `x`. */
export interface IpvsText {
  readonly ipset: string;
  readonly ipvs: string;
  readonly addresses: readonly string[];
  readonly excludeCIDRs: readonly string[];
}

/** The texts of a state. */
export function ipvsToText(state: NodeIpvs): IpvsText {
  const { addresses, excludeCIDRs } = state;
  return {
    ipset: printSets(state),
    ipvs: printServers(state),
    addresses: [...addresses.ipv4, ...addresses.ipv6],
    excludeCIDRs,
  };
}

/** The lines that create the interface and its addresses, for `ip -batch`. */
export function printAddresses({ addresses }: Pick<NodeIpvs, 'addresses'>): string {
  const lines = (['ipv4', 'ipv6'] as const).flatMap((family) => addresses[family].map((one) => bindLine(one, family)));
  return [`link add ${ipvsInterface} type dummy`, ...lines].map((line) => `${line}\n`).join('');
}

/** Parses a state. @returns it, or the first error in words */
export function ipvsFromText(text: IpvsText): NodeIpvs | string {
  const sets = readSets(text.ipset);
  const servers = readServers(text.ipvs);
  if (typeof sets === 'string') return sets;
  if (typeof servers === 'string') return servers;
  const of = (family: Family): readonly string[] =>
    text.addresses.filter((address) => address.includes(':') === (family === 'ipv6'));
  return { ...servers, sets, addresses: { ipv4: of('ipv4'), ipv6: of('ipv6') }, excludeCIDRs: text.excludeCIDRs };
}

const linesOf = (text: string): readonly string[] => text.split('\n').filter((line) => line !== '');

function readSets(text: string): NodeIpvs['sets'] | string {
  const sets = new Map<string, Omit<IpSet, 'entries'> & { readonly entries: Set<string> }>();
  for (const line of linesOf(text)) {
    const read = readSetLine(line);
    if ('error' in read) return `has a line ${JSON.stringify(line)}: ${read.error}`;
    if (read.kind === 'create') sets.set(read.set.name, { ...read.set, entries: new Set() });
    else sets.get(read.name)?.entries.add(read.entry);
  }
  return sets;
}

function readServers(text: string): Pick<NodeIpvs, 'virtualServers' | 'timeouts'> | string {
  const servers = new Map<string, Omit<VirtualServer, 'real'> & { readonly real: Map<string, RealServer> }>();
  let timeouts: NodeIpvs['timeouts'];
  for (const line of linesOf(text)) {
    const read = readServerLine(line);
    if ('error' in read) return `has a line ${JSON.stringify(line)}: ${read.error}`;
    if (read.kind === 'timeouts') timeouts = read.timeouts;
    else if (read.kind === 'virtual') servers.set(virtualKey(read.server), { ...read.server, real: new Map() });
    else servers.get(virtualKey(read.of))?.real.set(printEndpoint(read.server.address, read.server.port), read.server);
  }
  return { virtualServers: servers, ...(timeouts ? { timeouts } : {}) };
}
