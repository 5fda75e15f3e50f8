import { isIPv6 } from 'node:net';
import { pick } from '../review/mutate.ts';
import type { ClusterSpec } from './cluster.ts';
import type { PacketTable, Row } from './traffic-table.ts';

/**
 * Rows that nobody thought of: anybody to any address and port that an example speaks of, and to some that it does not.
 * Their `expect` is empty; the tracer fills it in.
 */
export function randomRows(spec: ClusterSpec, table: PacketTable, count: number, random: () => number): readonly Row[] {
  const machines = [...spec.nodes, ...spec.pods].map(({ name }) => name);
  const owned = [...spec.nodes, ...spec.pods].flatMap(({ addresses }) => addresses);
  const named = table.packets
    .map(({ to }) => to)
    .filter(({ protocol, address }) => protocol !== 'sctp' && address !== '127.0.0.1' && address !== '::1');
  const addresses = [...new Set([...named.map(({ address }) => address), ...owned])];
  const ports = [...new Set(named.map(({ port }) => port)), 8080, 4321];
  return Array.from({ length: count }, (_, n): Row => {
    const from = pick([...machines, 'outside'], random);
    const reachable = addresses.filter((address) => isIPv6(address) === isIPv6(pick(addressesOf(spec, from), random)));
    const to = { address: pick(reachable.length > 0 ? reachable : addresses, random), port: pick(ports, random) };
    const protocol = pick(['tcp', 'tcp', 'udp'] as const, random);
    const isOwned = owned.includes(to.address);
    return {
      title: `random ${n}`,
      from,
      ...(from === 'outside' && !isOwned ? { via: pick(spec.nodes, random).name } : {}),
      to: { ...to, protocol },
      expect: [],
      // One answer is enough where several may come: that each of them does is for the written rows.
      stays: true,
    };
  }).filter(({ from, to }) => hasFamily(spec, from, to.address) && !isLinkOnly(spec, from, to.address));
}

function addressesOf(spec: ClusterSpec, name: string): readonly string[] {
  if (name === 'outside') return spec.outside;
  return [...spec.nodes, ...spec.pods].find((machine) => machine.name === name)?.addresses ?? [];
}

/** A machine can only speak to addresses of a family that it has itself. */
function hasFamily(spec: ClusterSpec, name: string, address: string): boolean {
  return addressesOf(spec, name).some((own) => isIPv6(own) === isIPv6(address));
}

/** A node speaks to its pods themselves from the address of their link, which no rule sees. */
function isLinkOnly(spec: ClusterSpec, from: string, address: string): boolean {
  const isNode = spec.nodes.some(({ name }) => name === from);
  return isNode && spec.pods.some(({ addresses }) => addresses.includes(address));
}
