import { differing, type Family, type TableProgram } from '@sluice/bundle';
import { frontendOf } from './frontend.ts';
import type { Flow, FlowChange } from './ports.ts';
import { familyNames, type NodeState, tableOf } from './state.ts';

/**
 * The flows of UDP that only one of two states has. Connections of these go on as before whatever the rules say, for nat is asked
 * once per connection, and UDP has no end of a connection: a client with a fixed port stays on an endpoint that is gone for as
 * long as it sends (kube-proxy's `CleanStaleEntries` in `pkg/proxy/conntrack/cleanup.go`).
 *
 * Those of endpoints that stay are not among them, but for a node that leaves mode ipvs: the kernel tracks what a virtual server has
 * translated, and not that it did, so that nat would never look at these connections again (`ip_vs_update_conntrack` in
 * `net/netfilter/ipvs/ip_vs_nfct.c`). What nat has translated goes on past virtual servers.
 */
export function flowChange(now: NodeState, desired: NodeState): FlowChange {
  if (sameState(now, desired)) return { old: [], fresh: [] };
  const [before, after] = frontendsOfBoth(now, desired, 'udp');
  return { old: onlyIn(before, after), fresh: onlyIn(after, before) };
}

/**
 * The flows of TCP that only the program on trial has, for when it is taken back. A client that began to connect to an endpoint of these
 * asks it again for two minutes, and each question keeps the connection; once that is forgotten, the next question meets the old
 * program. What an update of endpoints leaves behind is no such flow: its endpoints were there a moment ago, and kube-proxy, too,
 * leaves connections of TCP alone.
 *
 * @param old the program that comes back
 * @param fresh the program on trial
 */
export function pendingFlows(old: NodeState, fresh: NodeState): readonly Flow[] {
  if (sameState(old, fresh)) return [];
  const [before, after] = frontendsOfBoth(old, fresh, 'tcp');
  return onlyIn(after, before);
}

function sameState(a: NodeState, b: NodeState): boolean {
  return a.ipvs === b.ipvs && familyNames.every((family) => sameChains(natOf(a, family), natOf(b, family)));
}

/** The protocols of which connections are ever forgotten. */
type Tracked = Extract<Flow['protocol'], 'tcp' | 'udp'>;

const natOf = (state: NodeState, family: Family): TableProgram => tableOf(state, family, 'nat');

const sameChains = (a: TableProgram, b: TableProgram): boolean => differing(a.chains, b.chains).length === 0;

/** What a state serves to clients of one protocol. */
interface Frontends {
  readonly isVirtual: boolean;
  /** By family, address (`*` for a node port) and port; then by endpoint. Frontends that lead nowhere are left out. */
  readonly flows: ReadonlyMap<string, ReadonlyMap<string, Flow>>;
  /** The endpoints behind a port of any address: mode iptables has one frontend for a node port, mode ipvs one for each address. */
  readonly byPort: ReadonlyMap<string, ReadonlySet<string>>;
}

const frontendKey = (flow: Flow): string => `${flow.family} ${flow.address ?? '*'} ${flow.port}`;
const portKey = (flow: Flow): string => `${flow.family} ${flow.port}`;

/** By family, the names of the chains in which frontends are looked for; left out: all. */
type Places = { readonly [F in Family]?: readonly string[] };

/**
 * The frontends of two states. In layout `tree` the name of a chain says what is behind it: whatever one of the two has other endpoints
 * behind stands in a chain that the other one lacks, and chains that both have lead to the same in both.
 */
function frontendsOfBoth(a: NodeState, b: NodeState, protocol: Tracked): readonly [Frontends, Frontends] {
  const places: { -readonly [F in Family]?: readonly string[] } = {};
  for (const family of familyNames) {
    const tables = [natOf(a, family), natOf(b, family)] as const;
    if (tables.every(({ chains }) => chains.has('SLUICE-SERVICES')))
      places[family] = differing(tables[0].chains, tables[1].chains);
  }
  return [frontendsOf(a, protocol, places), frontendsOf(b, protocol, places)];
}

function frontendsOf(state: NodeState, protocol: Tracked, places: Places): Frontends {
  const flows = new Map<string, Map<string, Flow>>();
  const byPort = new Map<string, Set<string>>();
  for (const flow of flowsOf(state, protocol, places)) {
    const endpoint = flow.endpoint ?? '';
    const [frontend, port] = [frontendKey(flow), portKey(flow)];
    flows.set(frontend, (flows.get(frontend) ?? new Map<string, Flow>()).set(endpoint, flow));
    byPort.set(port, (byPort.get(port) ?? new Set<string>()).add(endpoint));
  }
  return { isVirtual: state.ipvs !== undefined, flows, byPort };
}

function onlyIn(one: Frontends, other: Frontends): readonly Flow[] {
  const found: Flow[] = [];
  const leavesIpvs = one.isVirtual && !other.isVirtual;
  for (const [frontend, flows] of one.flows) {
    for (const [endpoint, flow] of flows) if (leavesIpvs || !serves(other, frontend, flow, endpoint)) found.push(flow);
  }
  // What only the other state serves left the node without nat in this one.
  for (const [frontend, flows] of other.flows) {
    const [flow] = flows.values();
    if (flow && !one.flows.has(frontend)) found.push({ ...flow, endpoint: undefined });
  }
  return found;
}

function serves({ flows, byPort }: Frontends, frontend: string, flow: Flow, endpoint: string): boolean {
  if (flows.get(frontend)?.has(endpoint)) return true;
  if (flow.address === undefined) return byPort.get(portKey(flow))?.has(endpoint) ?? false;
  return flows.get(frontendKey({ ...flow, address: undefined }))?.has(endpoint) ?? false;
}

/** Every way of a protocol from an address and port to an endpoint. */
function* flowsOf(state: NodeState, protocol: Tracked, places: Places): Generator<Flow> {
  for (const { family, protocol: its, address, port, real } of state.ipvs?.virtualServers.values() ?? []) {
    if (its !== protocol) continue;
    for (const endpoint of real.keys()) yield { family, protocol, address, port, endpoint };
  }
  for (const family of familyNames) {
    const table = natOf(state, family);
    const endpoints = new Endpoints(table);
    for (const name of places[family] ?? table.chains.keys()) {
      if (isOfService(name)) continue;
      for (const rule of table.chains.get(name) ?? []) {
        const frontend = frontendRuleOf(rule, family, protocol);
        if (!frontend) continue;
        for (const endpoint of endpoints.of(frontend.chain)) yield { ...frontend.flow, endpoint };
      }
    }
  }
}

/** Chains behind the frontends; most chains are such. */
const isOfService = (name: string): boolean => /^(KUBE-(SVC|SVL|EXT|FW|SEP)|SLU-(SVC|SVL|EXT|FW|SEP|GRP))-/.test(name);

/** A rule that leads packets of a protocol for one address and port, or for a node port, to the chains of a Service. */
function frontendRuleOf(
  rule: string,
  family: Family,
  protocol: Tracked,
): { readonly flow: Flow; readonly chain: string } | undefined {
  if (!rule.includes(` -p ${protocol} `)) return undefined;
  const chain = / -j ((?:KUBE|SLU)-(?:SVC|SVL|EXT|FW)-\S+)$/.exec(rule)?.[1];
  const frontend = chain === undefined ? undefined : frontendOf(rule);
  if (chain === undefined || !frontend) return undefined;
  const { port } = frontend;
  // The rule for node ports of one network of the machine is a frontend to any of its addresses.
  const address = frontend.address?.includes('/') === true ? undefined : frontend.address;
  return { flow: { family, protocol, address, port, endpoint: undefined }, chain };
}

/** The endpoints that the chains of a Service lead to. */
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
