import {
  baseFile,
  compareText,
  type Family,
  isInCidr,
  parseAddress,
  parseCidr,
  readPath,
  type Rule,
  type TransportProtocol,
} from '@sluice/bundle';
import { baseRulesOf } from './base-rules.ts';
import type { Destination } from './flow.ts';
import { portOf } from './reach.ts';
import type { ReachIndex } from './relevance.ts';
import { toolOf } from './tools.ts';
import type { View } from './view.ts';

/** `tcp 10.96.0.10 80`, the spelling by which reaches are looked up. @param address of the node, where the destination is a node port */
export function keyOf({ protocol, port }: Destination, address: string): string {
  return `${protocol} ${address} ${port}`;
}

/** The loopback address that a node itself can reach. */
export const loopback = { ipv4: '127.0.0.1', ipv6: '::1' } as const satisfies Record<Family, string>;

/** The address that a packet to a destination has on a node; undefined where the node's own is not known. */
export function addressOf(
  destination: Destination,
  family: Family,
  nodeAddress: string | undefined,
): string | undefined {
  if (destination.kind === 'node-port') return nodeAddress;
  return destination.kind === 'localhost' ? loopback[family] : destination.address;
}

/**
 * Every destination that the rules of some files speak of, once, in byte order of address, then by port and protocol.
 * @param indexes of one bundle, or of both that are compared, each with the files in question
 */
export function destinationsOf(
  family: Family,
  indexes: readonly { readonly index: ReachIndex; readonly paths: Iterable<string> }[],
): readonly Destination[] {
  const found = new Map<string, { destination: Destination; services: Set<string> }>();
  const add = (destination: Omit<Destination, 'services'>, path: string): void => {
    const key = `${destination.kind} ${destination.address} ${destination.port} ${destination.protocol}`;
    const known = found.get(key) ?? { destination: { ...destination, services: [] }, services: new Set<string>() };
    found.set(key, known);
    known.services.add(serviceOf(path));
  };
  const isNamed = ({ kind, address, port, protocol }: Destination): boolean =>
    kind === 'elsewhere' && found.has(`address ${address} ${port} ${protocol}`);
  for (const { index, paths } of indexes) {
    for (const path of paths) {
      const { exact, ports, wide, bound } = index.reach(path);
      for (const key of exact) add(wholeOf(key), path);
      for (const key of ports) for (const port of nodePortsOf(key)) add(port, path);
      for (const rule of wide) for (const destination of elsewhere(rule, family)) add(destination, path);
      // A node that carries an address answers for all its ports, and so for one that nobody has.
      for (const address of bound) add({ kind: 'elsewhere', address, port: nobodysPort, protocol: 'tcp' }, path);
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

/** `shop/web`, of the path of a Service file. */
export function serviceOf(path: string): string {
  const what = readPath(path);
  return what?.kind === 'service' ? `${what.namespace}/${what.name}` : '';
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

/** Addresses that stand for everything else a wide rule can meet: one in its network, one of nobody. The port is nobody's either. */
function elsewhere(rule: Rule, family: Family): readonly Omit<Destination, 'services'>[] {
  const network = rule.destination === undefined ? undefined : parseCidr(rule.destination.value);
  const inside = network && parseAddress(network.text.slice(0, network.text.indexOf('/')));
  const port = portOf(rule) ?? nobodysPort;
  const protocol = rule.protocol ?? 'tcp';
  const addresses =
    inside && network && isInCidr(inside, network) ? [inside.text, stranger[family]] : [stranger[family]];
  return addresses.map((address) => ({ kind: 'elsewhere', address, port, protocol }));
}

/**
 * What concerns no Service and still meets rules: traffic to anywhere else, which must pass as it is; and, where a profile routes
 * loopback addresses for its node ports, the kubelet's port on one, which no neighbour may reach (CVE-2020-8558).
 */
export function commonDestinations(view: View, profile: string, family: Family): readonly Destination[] {
  const first = view.files.get(baseFile(profile, 'first', toolOf[family])) ?? '';
  const other = { kind: 'elsewhere', address: stranger[family], port: 443, protocol: 'tcp', services: [] } as const;
  const sysctls = view.files.get(`profiles/${profile}/base/sysctl.conf`) ?? '';
  const isRouted =
    family === 'ipv4' && sysctls.includes('.route_localnet = 1\n') && first.includes('\n:KUBE-FIREWALL ');
  const kubelet = isRouted ? [{ ...other, address: loopback[family], port: 10_250 }] : [];
  const asked = baseRulesOf(view, profile, family).flatMap(({ rule }) => namedBy(rule, other));
  const all = [other, ...kubelet, ...asked].map((one) => [`${one.protocol} ${one.address} ${one.port}`, one] as const);
  return [...new Map(all).values()];
}

/** What a rule that stands for all Services asks for. Loopback addresses are excepted: packets to them have a rule of their own. */
function namedBy(rule: Rule, other: Destination): readonly Destination[] {
  const network = rule.destination === undefined ? undefined : parseCidr(rule.destination.value);
  const address = network?.text.slice(0, network.text.indexOf('/')) ?? other.address;
  if (address === '::1' || address.startsWith('127.')) return [];
  return [{ ...other, address, port: portOf(rule) ?? other.port, protocol: rule.protocol ?? other.protocol }];
}

/** A port that Services hardly have. */
const nobodysPort = 9;

/** An address of nobody, from the ranges for documentation. */
const stranger = { ipv4: '203.0.113.254', ipv6: '2001:db8:fffe::254' } as const satisfies Record<Family, string>;
