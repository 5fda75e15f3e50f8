import { isIPv6 } from 'node:net';
import type { ClusterSpec } from './cluster.ts';

/**
 * The wires and routes of a cluster as lines for `ip -batch`, one text per machine. Pure.
 *
 * Every wire is a pair of interfaces with a host route at each end and link-local gateways, as
 * Calico does it: no subnets to share, and a pod that reaches a pod of its own node always passes the node's rules, which it
 * does not on a bridge. With no other address on the wires, masquerading shows the node's own address everywhere.
 *
 *     pod ─┐
 *     pod ─┴─ node ─┐
 *     pod ─── node ─┴─ router ─── outside
 */
export interface Wiring {
  /** Run in the router: makes every wire and hands its ends over. */
  readonly wires: string;
  /** Run in the machine of that name, afterwards. */
  readonly machines: ReadonlyMap<string, string>;
}

/** The router's and the nodes' address on their wires: a machine drops packets from an address that it has itself. */
const routerGateway = { v4: '169.254.1.1', v6: 'fe80::1' } as const;
const nodeGateway = { v4: '169.254.1.2', v6: 'fe80::2' } as const;
type Gateway = typeof routerGateway | typeof nodeGateway;

/** @param pidOf the process that holds a machine's namespaces; `router` and `outside` are machines too */
export function wiring(spec: ClusterSpec, pidOf: (name: string) => number): Wiring {
  const wires: string[] = [];
  const machines = new Map<string, string[]>();
  const of = (name: string): string[] => machines.get(name) ?? machines.set(name, ['link set lo up']).get(name) ?? [];
  const connect = (upper: string, lower: string, port: string, addresses: readonly string[]): void => {
    wires.push(`link add ${port} netns ${pidOf(upper)} type veth peer name eth0 netns ${pidOf(lower)}`);
    const gateway = upper === 'router' ? routerGateway : nodeGateway;
    of(upper).push(...upperEnd(port, gateway, addresses));
    of(lower).push(...lowerEnd(gateway, addresses));
  };
  of('router');
  for (const [index, node] of spec.nodes.entries()) {
    connect('router', node.name, `node${index}`, node.addresses);
    of('router').push(...node.podCIDRs.map((cidr) => routeThrough(cidr, node.addresses, `node${index}`)));
  }
  for (const [index, pod] of spec.pods.entries()) connect(pod.node, pod.name, `pod${index}`, pod.addresses);
  connect('router', 'outside', 'outside', spec.outside);
  const text = (lines: readonly string[]): string => `${lines.join('\n')}\n`;
  return { wires: text(wires), machines: new Map([...machines].map(([name, lines]) => [name, text(lines)])) };
}

/** A line for the router: a CIDR or address goes through `port` to the machine that has these addresses. */
export function routeThrough(destination: string, addresses: readonly string[], port: string): string {
  const v6 = destination.includes(':');
  const next = addresses.find((address) => isIPv6(address) === v6);
  if (next === undefined)
    throw new Error(`Cannot route ${destination}: ${addresses.join(', ')} has no address of its family`);
  return `route replace ${destination} via ${next} dev ${port} onlink`;
}

function upperEnd(port: string, gateway: Gateway, addresses: readonly string[]): string[] {
  return [
    `link set ${port} up`,
    `addr add ${gateway.v4}/32 dev ${port} scope link`,
    `addr add ${gateway.v6}/64 dev ${port} nodad`,
    ...addresses.map((address) => `route add ${address} dev ${port}`),
  ];
}

function lowerEnd(gateway: Gateway, addresses: readonly string[]): string[] {
  return [
    'link set eth0 up',
    ...addresses.map((address) =>
      isIPv6(address) ? `addr add ${address}/128 dev eth0 nodad` : `addr add ${address}/32 dev eth0`,
    ),
    `route add ${gateway.v4} dev eth0 scope link`,
    `route add default via ${gateway.v4} dev eth0`,
    `route add ::/0 via ${gateway.v6} dev eth0`,
  ];
}
