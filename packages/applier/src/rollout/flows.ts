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
  const [before, after] = doorsOfBoth(now, desired, 'udp');
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
  const [before, after] = doorsOfBoth(old, fresh, 'tcp');
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
interface Doors {
  readonly isVirtual: boolean;
  /** By family, address (`*` for a node port) and port; then by endpoint. Doors that lead nowhere are left out. */
  readonly flows: ReadonlyMap<string, ReadonlyMap<string, Flow>>;
  /** The endpoints behind a port of any address: mode iptables has one door for a node port, mode ipvs one for each address. */
  readonly byPort: ReadonlyMap<string, ReadonlySet<string>>;
}

const doorKey = (flow: Flow): string => `${flow.family} ${flow.address ?? '*'} ${flow.port}`;
const portKey = (flow: Flow): string => `${flow.family} ${flow.port}`;

/** By family, the names of the chains in which doors are looked for; left out: all. */
type Places = { readonly [F in Family]?: readonly string[] };

/**
 * The doors of two states. In layout `tree` the name of a chain says what is behind it: whatever one of the two has other endpoints
 * behind stands in a chain that the other one lacks, and chains that both have lead to the same in both.
 */
function doorsOfBoth(a: NodeState, b: NodeState, protocol: Tracked): readonly [Doors, Doors] {
  const places: { -readonly [F in Family]?: readonly string[] } = {};
  for (const family of familyNames) {
    const tables = [natOf(a, family), natOf(b, family)] as const;
    if (tables.every(({ chains }) => chains.has('SLUICE-SERVICES')))
      places[family] = differing(tables[0].chains, tables[1].chains);
  }
  return [doorsOf(a, protocol, places), doorsOf(b, protocol, places)];
}

function doorsOf(state: NodeState, protocol: Tracked, places: Places): Doors {
  const flows = new Map<string, Map<string, Flow>>();
  const byPort = new Map<string, Set<string>>();
  for (const flow of flowsOf(state, protocol, places)) {
    const endpoint = flow.endpoint ?? '';
    const [door, port] = [doorKey(flow), portKey(flow)];
    flows.set(door, (flows.get(door) ?? new Map<string, Flow>()).set(endpoint, flow));
    byPort.set(port, (byPort.get(port) ?? new Set<string>()).add(endpoint));
  }
  return { isVirtual: state.ipvs !== undefined, flows, byPort };
}

function onlyIn(one: Doors, other: Doors): readonly Flow[] {
  const found: Flow[] = [];
  const leavesIpvs = one.isVirtual && !other.isVirtual;
  for (const [door, flows] of one.flows) {
    for (const [endpoint, flow] of flows) if (leavesIpvs || !serves(other, door, flow, endpoint)) found.push(flow);
  }
  // What only the other state serves left the node without nat in this one.
  for (const [door, flows] of other.flows) {
    const [flow] = flows.values();
    if (flow && !one.flows.has(door)) found.push({ ...flow, endpoint: undefined });
  }
  return found;
}

function serves({ flows, byPort }: Doors, door: string, flow: Flow, endpoint: string): boolean {
  if (flows.get(door)?.has(endpoint)) return true;
  if (flow.address === undefined) return byPort.get(portKey(flow))?.has(endpoint) ?? false;
  return flows.get(doorKey({ ...flow, address: undefined }))?.has(endpoint) ?? false;
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
        const door = doorOf(rule, family, protocol);
        if (!door) continue;
        for (const endpoint of endpoints.of(door.chain)) yield { ...door.flow, endpoint };
      }
    }
  }
}

/** Chains behind the doors; most chains are such. */
const isOfService = (name: string): boolean => /^(KUBE-(SVC|SVL|EXT|FW|SEP)|SLU-(SVC|SVL|EXT|FW|SEP|GRP))-/.test(name);

/** A rule that leads packets of a protocol for one address and port, or for a node port, to the chains of a Service. */
function doorOf(
  rule: string,
  family: Family,
  protocol: Tracked,
): { readonly flow: Flow; readonly chain: string } | undefined {
  if (!rule.includes(` -p ${protocol} `)) return undefined;
  const chain = / -j ((?:KUBE|SLU)-(?:SVC|SVL|EXT|FW)-\S+)$/.exec(rule)?.[1];
  const frontend = chain === undefined ? undefined : frontendOf(rule);
  if (chain === undefined || !frontend) return undefined;
  const { port } = frontend;
  // The rule for node ports of one network of the machine is a door to any of its addresses.
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
