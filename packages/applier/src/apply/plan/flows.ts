import { type Family, families, planeOf, printEndpoint } from '@sluice/netfilter';
import type { TrackedFlow, TrackedPath } from '../../ports/kernel.ts';
import type { FlowDifference } from '../../ports/journal.ts';
import type { NodeState } from '../../ports/node-state.ts';

/**
 * The UDP flows that only one of two states has. Their conntrack entries outlive a change of rules, because nat is consulted once per
 * connection, and UDP connections have no end: a client with a fixed port stays on a removed endpoint as long as it sends (kube-proxy's
 * `CleanStaleEntries` in `pkg/proxy/conntrack/cleanup.go`).
 *
 * Flows to endpoints that stay are left out, except on a node that leaves mode ipvs: conntrack has the translation of a virtual server,
 * but not its origin, so that nat would never see these connections again (`ip_vs_update_conntrack` in
 * `net/netfilter/ipvs/ip_vs_nfct.c`). Connections that nat translated bypass virtual servers and continue.
 */
export function flowChange(now: NodeState, desired: NodeState): FlowDifference {
  const [before, after] = frontendsOfBoth(now, desired, 'udp');
  return { old: onlyIn(before, after), fresh: onlyIn(after, before) };
}

/**
 * The TCP flows that only the program in probation has, for its rollback. A client that was connecting to one of its endpoints retries
 * for two minutes, and each retry refreshes the conntrack entry; once that is deleted, the next retry meets the old program. An endpoint
 * update needs no such clean-up: its old endpoints existed a moment ago, and kube-proxy does not touch TCP connections either.
 *
 * @param old the program to return to
 * @param next the program in probation
 */
export function pendingFlows(old: NodeState, next: NodeState): readonly TrackedFlow[] {
  const [before, after] = frontendsOfBoth(old, next, 'tcp');
  return onlyIn(after, before);
}

/** The families in which a state has frontends of UDP: connections to one without endpoints may be stale, too. */
export function udpFamilies(state: NodeState): readonly Family[] {
  const services = planeOf(state).read(state);
  return families.filter((family) => isAny(services.frontends(family, true, 'udp')));
}

/**
 * The addresses at which a state translates or rejects UDP, each with its port: `10.96.0.10:53`. A connection there that was not translated
 * began while the rules were away, and stays so as long as its client sends. At node ports, and where nat does not see all, that cannot be told.
 */
export function decidedAt(state: NodeState): ReadonlySet<string> {
  const plane = planeOf(state);
  if (!plane.isSeenByNat) return new Set();
  const services = plane.read(state);
  const all = [...services.served('udp', nothing), ...services.refused('udp', nothing)];
  return new Set(all.flatMap(({ address, port }) => (address === undefined ? [] : [printEndpoint(address, port)])));
}

/**
 * The flows of connections that a frontend of a state sends to an endpoint that it does not have, as after a deletion that was missed, or to
 * none; a frontend without endpoints has none. Connections at other addresses are foreign.
 */
export function staleFlows(state: NodeState, paths: readonly TrackedPath[]): readonly TrackedFlow[] {
  if (paths.length === 0) return [];
  const frontends = frontendsOf(state, nothing, 'udp');
  return paths.flatMap((path): TrackedFlow[] => {
    const flow: TrackedFlow = { ...path, protocol: 'udp' };
    if (serves(frontends, frontendKey(flow), flow, path.endpoint)) return [];
    // At a node port the connection has an address of the node, which is not known here.
    const candidates = [flow, { ...flow, address: undefined }];
    const found = candidates.find(
      (one) => frontends.flows.has(frontendKey(one)) || frontends.refused.has(frontendKey(one)),
    );
    if (found === undefined || serves(frontends, frontendKey(found), found, path.endpoint)) return [];
    return [path.endpoint === printEndpoint(path.address, path.port) ? { ...found, endpoint: undefined } : found];
  });
}

function isAny(values: Iterable<unknown>): boolean {
  for (const _ of values) return true;
  return false;
}

const nothing: NodeState = { families: {}, sysctls: new Map() };

/** The protocols whose conntrack entries are ever deleted. */
type TrackedProtocol = Extract<TrackedFlow['protocol'], 'tcp' | 'udp'>;

/** The frontends of a state for one protocol, but not all that another state has, too. */
interface Frontends {
  readonly isSeenByNat: boolean;
  /** By family, address (`*` for a node port) and port; then by endpoint. Frontends without endpoints are left out. */
  readonly flows: ReadonlyMap<string, ReadonlyMap<string, TrackedFlow>>;
  /** The endpoints of a port at any address: mode iptables has one frontend for a node port, mode ipvs one for each address. */
  readonly byPort: ReadonlyMap<string, ReadonlySet<string>>;
  /** Those that reject packets, by the same key, without an endpoint. */
  readonly refused: ReadonlyMap<string, TrackedFlow>;
}

const frontendKey = (flow: Omit<TrackedFlow, 'endpoint'>): string =>
  `${flow.family} ${flow.address ?? '*'} ${flow.port}`;
const portKey = (flow: TrackedFlow): string => `${flow.family} ${flow.port}`;

const frontendsOfBoth = (a: NodeState, b: NodeState, protocol: TrackedProtocol): readonly [Frontends, Frontends] => [
  frontendsOf(a, b, protocol),
  frontendsOf(b, a, protocol),
];

function frontendsOf(state: NodeState, other: NodeState, protocol: TrackedProtocol): Frontends {
  const plane = planeOf(state);
  const flows = new Map<string, Map<string, TrackedFlow>>();
  const byPort = new Map<string, Set<string>>();
  const services = plane.read(state);
  for (const served of services.served(protocol, other)) {
    const flow: TrackedFlow = { ...served, protocol };
    const [frontend, port] = [frontendKey(flow), portKey(flow)];
    flows.set(frontend, (flows.get(frontend) ?? new Map<string, TrackedFlow>()).set(served.endpoint, flow));
    byPort.set(port, (byPort.get(port) ?? new Set<string>()).add(served.endpoint));
  }
  const refused = new Map<string, TrackedFlow>();
  for (const one of services.refused(protocol, other)) {
    const flow: TrackedFlow = { ...one, protocol, endpoint: undefined };
    if (!flows.has(frontendKey(flow))) refused.set(frontendKey(flow), flow);
  }
  return { isSeenByNat: plane.isSeenByNat, flows, byPort, refused };
}

function onlyIn(one: Frontends, other: Frontends): readonly TrackedFlow[] {
  const found: TrackedFlow[] = [];
  const isUnseen = !one.isSeenByNat && other.isSeenByNat;
  for (const [frontend, flows] of one.flows) {
    for (const [endpoint, flow] of flows) if (isUnseen || !serves(other, frontend, flow, endpoint)) found.push(flow);
  }
  // A frontend of the other state alone: in this state its packets left the node without nat, and no rule rejects those of a known connection.
  for (const [frontend, flows] of other.flows) {
    const [flow] = flows.values();
    if (flow && !one.flows.has(frontend)) found.push({ ...flow, endpoint: undefined });
  }
  for (const [frontend, flow] of other.refused)
    if (!one.flows.has(frontend) && !one.refused.has(frontend)) found.push(flow);
  return found;
}

function serves({ flows, byPort }: Frontends, frontend: string, flow: TrackedFlow, endpoint: string): boolean {
  if (flows.get(frontend)?.has(endpoint)) return true;
  if (flow.address === undefined) return byPort.get(portKey(flow))?.has(endpoint) ?? false;
  return flows.get(frontendKey({ ...flow, address: undefined }))?.has(endpoint) ?? false;
}
