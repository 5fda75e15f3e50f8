import { differing, type Family, type TableProgram } from '@sluice/netfilter';
import { frontendOf } from './frontend.ts';
import type { TrackedFlow } from '../ports/kernel.ts';
import type { FlowDifference } from '../ports/journal.ts';
import { familyNames, type NodeState, tableOf } from '../ports/node-state.ts';

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
  if (sameState(now, desired)) return { old: [], fresh: [] };
  const [before, after] = frontendsOfBoth(now, desired, 'udp');
  return { old: onlyIn(before, after), fresh: onlyIn(after, before) };
}

/**
 * The TCP flows that only the program in probation has, for its rollback. A client that was connecting to one of its endpoints retries
 * for two minutes, and each retry refreshes the conntrack entry; once that is deleted, the next retry meets the old program. An endpoint
 * update needs no such clean-up: its old endpoints existed a moment ago, and kube-proxy does not touch TCP connections either.
 *
 * @param old the program to return to
 * @param fresh the program in probation
 */
export function pendingFlows(old: NodeState, fresh: NodeState): readonly TrackedFlow[] {
  if (sameState(old, fresh)) return [];
  const [before, after] = frontendsOfBoth(old, fresh, 'tcp');
  return onlyIn(after, before);
}

function sameState(a: NodeState, b: NodeState): boolean {
  return a.ipvs === b.ipvs && familyNames.every((family) => sameChains(natOf(a, family), natOf(b, family)));
}

/** The protocols whose conntrack entries are ever deleted. */
type TrackedProtocol = Extract<TrackedFlow['protocol'], 'tcp' | 'udp'>;

const natOf = (state: NodeState, family: Family): TableProgram => tableOf(state, family, 'nat');

const sameChains = (a: TableProgram, b: TableProgram): boolean => differing(a.chains, b.chains).length === 0;

/** The frontends of a state for one protocol. */
interface Frontends {
  readonly isVirtual: boolean;
  /** By family, address (`*` for a node port) and port; then by endpoint. Frontends without endpoints are left out. */
  readonly flows: ReadonlyMap<string, ReadonlyMap<string, TrackedFlow>>;
  /** The endpoints of a port at any address: mode iptables has one frontend for a node port, mode ipvs one for each address. */
  readonly byPort: ReadonlyMap<string, ReadonlySet<string>>;
}

const frontendKey = (flow: TrackedFlow): string => `${flow.family} ${flow.address ?? '*'} ${flow.port}`;
const portKey = (flow: TrackedFlow): string => `${flow.family} ${flow.port}`;

/** By family, the names of the chains to search for frontends; left out: all. */
type ChainsByFamily = { readonly [F in Family]?: readonly string[] };

/**
 * The frontends of two states. In layout `tree` the name of a chain identifies its content and that of all chains below it, so only chains
 * that one of the states lacks are searched.
 */
function frontendsOfBoth(a: NodeState, b: NodeState, protocol: TrackedProtocol): readonly [Frontends, Frontends] {
  const changed: { -readonly [F in Family]?: readonly string[] } = {};
  for (const family of familyNames) {
    const tables = [natOf(a, family), natOf(b, family)] as const;
    if (tables.every(({ chains }) => chains.has('SLUICE-SERVICES')))
      changed[family] = differing(tables[0].chains, tables[1].chains);
  }
  return [frontendsOf(a, protocol, changed), frontendsOf(b, protocol, changed)];
}

function frontendsOf(state: NodeState, protocol: TrackedProtocol, chains: ChainsByFamily): Frontends {
  const flows = new Map<string, Map<string, TrackedFlow>>();
  const byPort = new Map<string, Set<string>>();
  for (const flow of flowsOf(state, protocol, chains)) {
    const endpoint = flow.endpoint ?? '';
    const [frontend, port] = [frontendKey(flow), portKey(flow)];
    flows.set(frontend, (flows.get(frontend) ?? new Map<string, TrackedFlow>()).set(endpoint, flow));
    byPort.set(port, (byPort.get(port) ?? new Set<string>()).add(endpoint));
  }
  return { isVirtual: state.ipvs !== undefined, flows, byPort };
}

function onlyIn(one: Frontends, other: Frontends): readonly TrackedFlow[] {
  const found: TrackedFlow[] = [];
  const leavesIpvs = one.isVirtual && !other.isVirtual;
  for (const [frontend, flows] of one.flows) {
    for (const [endpoint, flow] of flows) if (leavesIpvs || !serves(other, frontend, flow, endpoint)) found.push(flow);
  }
  // A frontend of the other state alone: in this state its packets left the node without nat.
  for (const [frontend, flows] of other.flows) {
    const [flow] = flows.values();
    if (flow && !one.flows.has(frontend)) found.push({ ...flow, endpoint: undefined });
  }
  return found;
}

function serves({ flows, byPort }: Frontends, frontend: string, flow: TrackedFlow, endpoint: string): boolean {
  if (flows.get(frontend)?.has(endpoint)) return true;
  if (flow.address === undefined) return byPort.get(portKey(flow))?.has(endpoint) ?? false;
  return flows.get(frontendKey({ ...flow, address: undefined }))?.has(endpoint) ?? false;
}

/** Every combination of frontend and endpoint of a protocol. */
function* flowsOf(state: NodeState, protocol: TrackedProtocol, chains: ChainsByFamily): Generator<TrackedFlow> {
  for (const { family, protocol: its, address, port, real } of state.ipvs?.virtualServers.values() ?? []) {
    if (its !== protocol) continue;
    for (const endpoint of real.keys()) yield { family, protocol, address, port, endpoint };
  }
  for (const family of familyNames) {
    const table = natOf(state, family);
    const endpoints = new Endpoints(table);
    for (const name of chains[family] ?? table.chains.keys()) {
      if (isOfService(name)) continue;
      for (const rule of table.chains.get(name) ?? []) {
        const frontend = frontendRuleOf(rule, family, protocol);
        if (!frontend) continue;
        for (const endpoint of endpoints.of(frontend.chain)) yield { ...frontend.flow, endpoint };
      }
    }
  }
}

/** Whether a chain is below the frontends, as most chains are. */
const isOfService = (name: string): boolean => /^(KUBE-(SVC|SVL|EXT|FW|SEP)|SLU-(SVC|SVL|EXT|FW|SEP|GRP))-/.test(name);

/** Reads a rule that leads packets for one address and port, or for a node port, to the chains of a Service. */
function frontendRuleOf(
  rule: string,
  family: Family,
  protocol: TrackedProtocol,
): { readonly flow: TrackedFlow; readonly chain: string } | undefined {
  if (!rule.includes(` -p ${protocol} `)) return undefined;
  const chain = / -j ((?:KUBE|SLU)-(?:SVC|SVL|EXT|FW)-\S+)$/.exec(rule)?.[1];
  const frontend = chain === undefined ? undefined : frontendOf(rule);
  if (chain === undefined || !frontend) return undefined;
  const { port } = frontend;
  // A rule for node ports in one network of the node: treated as any address of the node.
  const address = frontend.address?.includes('/') === true ? undefined : frontend.address;
  return { flow: { family, protocol, address, port, endpoint: undefined }, chain };
}

/** Finds the endpoints that a chain of a Service leads to. */
class Endpoints {
  readonly #table: TableProgram;
  readonly #known = new Map<string, ReadonlySet<string>>();

  constructor(table: TableProgram) {
    this.#table = table;
  }

  of(chain: string): ReadonlySet<string> {
    const known = this.#known.get(chain);
    if (known) return known;
    const found = new Set<string>();
    this.#known.set(chain, found);
    for (const rule of this.#table.chains.get(chain) ?? []) {
      const endpoint = / --to-destination (\S+)/.exec(rule)?.[1];
      if (endpoint !== undefined) found.add(endpoint);
      const target = / -[jg] ((?:KUBE|SLU)-\S+)$/.exec(rule)?.[1];
      if (target !== undefined) for (const one of this.of(target)) found.add(one);
    }
    return found;
  }
}
