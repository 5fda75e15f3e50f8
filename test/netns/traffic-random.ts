import { isIPv6 } from 'node:net';
import { pick } from '../review/mutate.ts';
import type { Cluster, ClusterSpec } from './cluster.ts';
import { observe, type Pace, usualPace } from './traffic-kernel.ts';
import type { Programs } from './traffic-nodes.ts';
import { comesBack, machineAt } from './traffic-places.ts';
import type { PacketTable, Row, Verdict } from './traffic-table.ts';
import { predict } from './traffic-trace.ts';

/**
 * Random rows: any machine to any address and port of an example, and to some that it does not have.
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
      // One of several possible answers is enough: the written rows check that each occurs.
      stays: true,
    };
  }).filter(({ from, to }) => hasFamily(spec, from, to.address) && !isLinkOnly(spec, from, to.address));
}

function addressesOf(spec: ClusterSpec, name: string): readonly string[] {
  if (name === 'outside') return spec.outside;
  return [...spec.nodes, ...spec.pods].find((machine) => machine.name === name)?.addresses ?? [];
}

/** Whether a machine has an address of the destination's family. */
function hasFamily(spec: ClusterSpec, name: string, address: string): boolean {
  return addressesOf(spec, name).some((own) => isIPv6(own) === isIPv6(address));
}

/** A node reaches its pods from the address of their link, which no rule sees. */
function isLinkOnly(spec: ClusterSpec, from: string, address: string): boolean {
  const isNode = spec.nodes.some(({ name }) => name === from);
  return isNode && spec.pods.some(({ addresses }) => addresses.includes(address));
}

/** Rows with the verdicts of the tracer, without those whose replies do not come back. */
export function predictedRows(
  spec: ClusterSpec,
  programs: ReadonlyMap<string, Programs>,
  rows: readonly Row[],
): readonly Row[] {
  return rows
    .map((row): Row => ({ ...row, expect: predict(spec, programs, row) }))
    .filter((row) => comesBack(spec, row));
}

/** Starts the servers outside the cluster; nodes have none here. */
export async function serveOutside(cluster: Cluster, table: PacketTable): Promise<void> {
  for (const text of table.outside.ports) {
    const [port, protocol] = text.split('/');
    await cluster.host('outside').serve(protocol === 'udp' ? 'udp' : 'tcp', Number(port));
  }
}

/** Opens the connections of rows for real. @returns the rows that ended otherwise than predicted, as text */
export async function mispredicted(
  cluster: Cluster,
  table: PacketTable,
  rows: readonly Row[],
  pace: Pace = usualPace,
): Promise<readonly string[]> {
  const { spec } = cluster;
  const wrong: string[] = [];
  const look = async (row: Row): Promise<void> => {
    const seen = await observe(cluster, { ...table, listen: { outside: table.outside.ports } }, row, pace);
    if (seen.every((verdict) => row.expect.includes(verdict) || isLost(spec, row, verdict))) return;
    const flow = `${row.from} via ${row.via} → ${JSON.stringify(row.to)}`;
    wrong.push(`${flow}: ${seen.join()} instead of ${row.expect.join()}`);
  };
  for (const [via, group] of Map.groupBy(rows, (row) => row.via)) {
    if (via !== undefined) for (const { to } of group) await cluster.enterAt(to.address, via);
    for (let at = 0; at < group.length; at += pace.atOnce)
      await Promise.all(group.slice(at, at + pace.atOnce).map(look));
  }
  return wrong;
}

/**
 * A packet that matches no Service, to an unused address: whether this test network drops it or answers (`''`, unreachable,
 * once an earlier packet has looked for the neighbour in vain) is not under test.
 */
function isLost(spec: ClusterSpec, row: Row, verdict: Verdict): boolean {
  const isNobodys = machineAt(spec, row.from, row.to.address) === undefined;
  return isNobodys && (verdict === 'drop' || verdict === '') && row.expect.every((expected) => expected === 'pass');
}
