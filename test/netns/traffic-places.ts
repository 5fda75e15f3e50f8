import { isIPv6 } from 'node:net';
import type { ClusterSpec, NodeSpec } from './cluster.ts';
import type { Row } from './traffic-table.ts';

/** Every machine of a cluster with its addresses: nodes, pods, `outside`. */
export function addressesOf(spec: ClusterSpec, machine: string): readonly string[] {
  if (machine === 'outside') return spec.outside;
  const found = [...spec.nodes, ...spec.pods].find(({ name }) => name === machine);
  if (!found) throw new Error(`The example has no machine ${machine}`);
  return found.addresses;
}

const isLoopback = (address: string): boolean => address.startsWith('127.') || address === '::1';

/** The machine with an address; `from` itself for loopback; undefined for an address without a machine, such as a VIP. */
export function machineAt(spec: ClusterSpec, from: string, address: string): string | undefined {
  if (isLoopback(address)) return from;
  const names = [...spec.nodes.map(({ name }) => name), ...spec.pods.map(({ name }) => name), 'outside'];
  return names.find((name) => addressesOf(spec, name).includes(address));
}

/** The source address of a row's connection, as the first node sees it. */
export function sourceOf(spec: ClusterSpec, row: Row): string {
  if (row.source !== undefined) return row.source;
  const { address } = row.to;
  if (isLoopback(address)) return isIPv6(address) ? '::1' : '127.0.0.1';
  const source = addressesOf(spec, row.from).find((own) => isIPv6(own) === isIPv6(address));
  if (source === undefined) throw new Error(`${row.from} has no address of the family of ${address}`);
  return source;
}

/** The node whose rules decide a row: the first one of the packet's path, or its destination when it is for a node or comes from outside. */
export function nodeOf(spec: ClusterSpec, row: Row): NodeSpec | undefined {
  const owner = machineAt(spec, row.from, row.to.address);
  const target = spec.nodes.find(({ name }) => name === owner);
  return target ?? firstNode(spec, row);
}

/** The first node that a row's packet passes. */
export function firstNode(spec: ClusterSpec, row: Row): NodeSpec | undefined {
  const owner = machineAt(spec, row.from, row.to.address);
  const pod = (name: string | undefined): string | undefined => spec.pods.find((p) => p.name === name)?.node;
  const name = row.from === 'outside' ? (row.via ?? pod(owner) ?? owner) : (pod(row.from) ?? row.from);
  return spec.nodes.find((node) => node.name === name);
}

/**
 * Whether a reply takes the path that it must: through the node that translated the connection. A reply to packets of that node which are
 * not masqueraded, from a pod of another node, bypasses it, unless the node is the client itself: so it is in every cluster.
 */
export function comesBack(spec: ClusterSpec, row: Row): boolean {
  const decides = nodeOf(spec, row)?.name;
  const starts = row.from === 'outside' ? undefined : firstNode(spec, row)?.name;
  if (decides === undefined || decides === starts) return true;
  return row.expect.every((verdict) => (spec.pods.find(({ name }) => name === verdict)?.node ?? decides) === decides);
}
