import { isIPv6 } from 'node:net';
import { compareText, type Outcome, type Packet, trace } from '@sluice/netfilter';
import type { ClusterSpec, NodeSpec } from './cluster.ts';
import type { Programs } from './traffic-nodes.ts';
import { firstNode, machineAt, nodeOf, sourceOf } from './traffic-places.ts';
import type { Row, Verdict } from './traffic-table.ts';

/**
 * The verdicts of the tracer for a row, in the words of its `expect`, sorted.
 * A packet that matches no rule of the first node continues to the node of its destination, and is traced there.
 */
export function predict(spec: ClusterSpec, programs: ReadonlyMap<string, Programs>, row: Row): readonly Verdict[] {
  const first = firstNode(spec, row);
  if (!first) throw new Error(`Cannot trace ${row.title}: it passes no node; name the node by which it enters (via)`);
  const here = verdictsAt(spec, programs, row, first);
  const last = nodeOf(spec, row);
  const goesOn = here.length === 1 && here[0] === 'pass' && last !== undefined && last !== first;
  return goesOn ? verdictsAt(spec, programs, row, last) : here;
}

function verdictsAt(
  spec: ClusterSpec,
  programs: ReadonlyMap<string, Programs>,
  row: Row,
  node: NodeSpec,
): readonly Verdict[] {
  const packet = packetAt(spec, row, node);
  const { ipvs, nft, ...ofFamily } = programs.get(node.name) ?? {};
  const program = ofFamily[packet.family];
  if (!program) throw new Error(`Cannot trace ${row.title}: ${node.name} has no rules of ${packet.family}`);
  const outcomes = trace(program, packet, {
    localAddresses: node.addresses,
    ipvs: ipvs?.(node.addresses),
    nft,
  });
  return [...new Set(outcomes.map((outcome) => verdictOf(spec, row, outcome)))].toSorted(compareText);
}

function packetAt(spec: ClusterSpec, row: Row, node: NodeSpec): Packet {
  const { address, port, protocol } = row.to;
  const pod = spec.pods.findIndex(({ name, node: own }) => name === row.from && own === node.name);
  return {
    family: isIPv6(address) ? 'ipv6' : 'ipv4',
    source: sourceOf(spec, row),
    destination: address,
    protocol,
    port,
    // A packet of the node itself has no incoming interface. The names are those of cluster-links.ts.
    ...(row.from === node.name ? {} : { in: pod < 0 ? 'eth0' : `pod${pod}` }),
  };
}

function verdictOf(spec: ClusterSpec, row: Row, outcome: Outcome): Verdict {
  if (outcome.verdict !== 'dnat') return outcome.verdict;
  const to = outcome.to ?? '';
  const address = to.slice(0, to.lastIndexOf(':')).replaceAll(/[[\]]/g, '');
  return `${outcome.masquerade ? 'masquerade ' : ''}${machineAt(spec, row.from, address) ?? to}`;
}
