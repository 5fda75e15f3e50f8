import { baseFile, serviceOf } from '@sluice/bundle';
import {
  compareText,
  type Family,
  getOrInsert,
  isInCidr,
  matchedPort,
  networkOf,
  parseAddress,
  modeFacts,
  parseCidr,
  toolOf,
  type Rule,
  type TransportProtocol,
} from '@sluice/netfilter';
import { baseRulesOf } from './base-rules.ts';
import type { Destination } from './flow.ts';
import { nftStateOf } from './nft-state.ts';
import { addressAt, numberOf, sizeOf } from './numbers.ts';
import type { MatchIndex } from '../bundle/relevance.ts';
import { nodeOf, nodesOfProfile } from '../bundle/node.ts';
import type { BundleView } from '../bundle/view.ts';

/** `tcp 10.96.0.10 80`, the key of a destination in match indexes. @param address the node's, for a node port */
export function keyOf({ protocol, port }: Destination, address: string): string {
  return `${protocol} ${address} ${port}`;
}

/** A destination as a text, without its Services. */
export function placeOf({ kind, address, port, protocol }: Omit<Destination, 'services'>): string {
  return `${kind} ${address} ${port} ${protocol}`;
}

/** The loopback address that a node itself can reach. */
export const loopback = { ipv4: '127.0.0.1', ipv6: '::1' } as const satisfies Record<Family, string>;

/** The destination address of a packet on a node; undefined for a node port of a node without a known address. */
export function addressOf(
  destination: Destination,
  family: Family,
  nodeAddress: string | undefined,
): string | undefined {
  if (destination.kind === 'node-port') return nodeAddress;
  return destination.kind === 'localhost' ? loopback[family] : destination.address;
}

/**
 * Every destination that rules of the given files match, once, ordered by kind, address, port and protocol.
 * @param indexes of one bundle, or of both that are compared, each with the files to look at
 */
export function destinationsOf(
  family: Family,
  indexes: readonly { readonly index: MatchIndex; readonly paths: Iterable<string> }[],
): readonly Destination[] {
  const found = new Map<string, { destination: Destination; services: Set<string> }>();
  const add = (destination: Omit<Destination, 'services'>, path: string): void => {
    const known = getOrInsert(found, placeOf(destination), () => ({
      destination: { ...destination, services: [] },
      services: new Set<string>(),
    }));
    known.services.add(serviceOf(path));
  };
  const isNamed = (destination: Destination): boolean =>
    destination.kind === 'elsewhere' && found.has(placeOf({ ...destination, kind: 'address' }));
  for (const { index, paths } of indexes) {
    for (const path of paths) {
      const { exact, ports, wide, bound } = index.matches(path);
      for (const key of exact) add(wholeOf(key), path);
      for (const key of ports) for (const port of nodePortsOf(key)) add(port, path);
      for (const rule of wide) for (const destination of elsewhere(rule, family)) add(destination, path);
      // A node that carries an address answers on all its ports, also on one that no Service has.
      for (const address of bound) add(otherPortOf(address), path);
    }
  }
  return [...found.values()]
    .filter(({ destination }) => !isNamed(destination))
    .map(({ destination, services }) => ({ ...destination, services: [...services].toSorted(compareText) }))
    .toSorted(compareDestinations);
}

/** By kind, address, port, protocol. */
export function compareDestinations(a: Destination, b: Destination): number {
  return (
    compareText(a.kind, b.kind) ||
    compareText(a.address, b.address) ||
    a.port - b.port ||
    compareText(a.protocol, b.protocol)
  );
}

function wholeOf(key: string): Omit<Destination, 'services'> {
  const [protocol, address, port] = key.split(' ') as [TransportProtocol, string, string];
  return { kind: 'address', address, port: Number(port), protocol };
}

function nodePortsOf(key: string): readonly Omit<Destination, 'services'>[] {
  const [protocol, text] = key.split(' ') as [TransportProtocol, string];
  const port = Number(text);
  return (['node-port', 'localhost'] as const).map((kind) => ({ kind, address: '', port, protocol }));
}

/** Samples of all other packets that a wide rule can match: an address in its network, and an unassigned one; an unused port. */
function elsewhere(rule: Rule, family: Family): readonly Omit<Destination, 'services'>[] {
  const network = rule.destination === undefined ? undefined : parseCidr(rule.destination.value);
  const inside = network && parseAddress(network.text.slice(0, network.text.indexOf('/')));
  const port = matchedPort(rule) ?? unusedPort;
  const protocol = rule.protocol ?? 'tcp';
  const addresses =
    inside && network && isInCidr(inside, network) ? [inside.text, unassigned[family]] : [unassigned[family]];
  return addresses.map((address) => ({ kind: 'elsewhere', address, port, protocol }));
}

/**
 * Destinations of no Service that base rules can still match: any other address, whose traffic must pass unchanged; and, where a
 * profile routes loopback addresses for its node ports, the kubelet's port on loopback, which other hosts must not reach
 * (CVE-2020-8558).
 */
export function commonDestinations(view: BundleView, profile: string, family: Family): readonly Destination[] {
  const first = view.files.get(baseFile(profile, 'first', toolOf[family])) ?? '';
  const other = { kind: 'elsewhere', address: unassigned[family], port: 443, protocol: 'tcp', services: [] } as const;
  const sysctls = view.files.get(`profiles/${profile}/base/sysctl.conf`) ?? '';
  const isRouted =
    family === 'ipv4' && sysctls.includes('.route_localnet = 1\n') && first.includes('\n:KUBE-FIREWALL ');
  const kubelet = isRouted ? [{ ...other, address: loopback[family], port: 10_250 }] : [];
  const named = baseRulesOf(view, profile, family).flatMap(({ rule }) => namedBy(rule, other));
  const all = [other, ...kubelet, ...named, ...unallocatedIn(view, profile, family)].map(
    (one) => [`${one.protocol} ${one.address} ${one.port}`, one] as const,
  );
  return [...new Map(all).values()];
}

/**
 * Mode nftables: addresses that no Service has, in the Service CIDRs of the cluster or of the profile and beside them. Packets to those
 * in a CIDR of the profile are dropped. Two sets of networks that differ do so from the start of one network, or from the end of one:
 * the first free address at each is enough.
 */
function unallocatedIn(view: BundleView, profile: string, family: Family): readonly Destination[] {
  const { mode } = view.profiles.get(profile) ?? {};
  const [name] = mode !== undefined && modeFacts[mode].dropsUnallocated ? nodesOfProfile(view, profile) : [];
  if (name === undefined) return [];
  const { addresses } = view.index(profile, family);
  const { settings } = nftStateOf(view, nodeOf(view, name), []);
  const own = settings.flatMap((setting) => (setting.startsWith('cidr ') ? [setting.slice('cidr '.length)] : []));
  const edges = [...own, ...view.cluster.serviceCIDRs].flatMap((text): readonly bigint[] => {
    const network = networkOf(text);
    return network?.family === family ? [numberOf(network), numberOf(network) + sizeOf(network)] : [];
  });
  const free = edges.flatMap((edge) => freeFrom(edge, family, addresses) ?? []);
  return [...new Set(free)].map((address): Destination => ({ ...otherPortOf(address), services: [] }));
}

/** The first address that no Service has; undefined where the address space ends before. */
function freeFrom(start: bigint, family: Family, taken: ReadonlySet<string>): string | undefined {
  const end = sizeOf(anywhere[family]);
  for (let number = start; number < end; number++) {
    const text = addressAt(number, family);
    if (!taken.has(text)) return text;
  }
  return undefined;
}

const anywhere = { ipv4: parseCidr('0.0.0.0/0')!, ipv6: parseCidr('::/0')! } as const;

/** The destination that a base rule names. Loopback addresses are left out: they have their own sample. */
function namedBy(rule: Rule, other: Destination): readonly Destination[] {
  const network = rule.destination === undefined ? undefined : parseCidr(rule.destination.value);
  const address = network?.text.slice(0, network.text.indexOf('/')) ?? other.address;
  if (address === '::1' || address.startsWith('127.')) return [];
  return [{ ...other, address, port: matchedPort(rule) ?? other.port, protocol: rule.protocol ?? other.protocol }];
}

/** A port of an address that hardly any Service has. @param port where that one is known to have it */
export const otherPortOf = (address: string, port = unusedPort): Omit<Destination, 'services'> => ({
  kind: 'elsewhere',
  address,
  port,
  protocol: 'tcp',
});

/** The discard port, which Services hardly ever use. */
export const unusedPort = 9;

/** An unassigned address, from the ranges for documentation (RFC 5737, RFC 3849). */
const unassigned = { ipv4: '203.0.113.254', ipv6: '2001:db8:fffe::254' } as const satisfies Record<Family, string>;
