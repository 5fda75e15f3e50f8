import type { Family, TableProgram } from '@sluice/bundle';
import { limits } from '../limits.ts';
import type { Flow, FlowChange } from '../rollout/ports.ts';
import { familyNames, type NodeState, tableOf } from '../rollout/state.ts';

/**
 * The flows that only one of two states has. Connections of these go on as before whatever the rules say, for nat is asked once per
 * connection: a client of UDP with a fixed port stays on an endpoint that is gone for as long as it sends.
 */
export function flowChange(now: NodeState, goal: NodeState): FlowChange {
  const change = { old: [] as Flow[], fresh: [] as Flow[] };
  for (const family of familyNames) {
    const [a, b] = [tableOf(now, family, 'nat'), tableOf(goal, family, 'nat')];
    const [before, after] = [flowsOf(a, b, family), flowsOf(b, a, family)];
    change.old.push(...onlyIn(before, after));
    change.fresh.push(...onlyIn(after, before));
  }
  return { old: change.old.slice(0, limits.flowsForgottenMax), fresh: change.fresh.slice(0, limits.flowsForgottenMax) };
}

type Doors = ReadonlyMap<string, ReadonlyMap<string, Flow>>;

/** Flows by what is asked for, then by endpoint: those of one door that the other state lacks. */
function* onlyIn(one: Doors, other: Doors): Generator<Flow> {
  for (const [door, flows] of one) {
    const others = other.get(door);
    for (const [endpoint, flow] of flows) if (!others?.has(endpoint)) yield flow;
  }
  // What only the other state serves left the node without nat in this one.
  for (const [door, flows] of other) {
    const [flow] = flows.values();
    if (!one.has(door) && flow) yield { ...flow, endpoint: undefined };
  }
}

/** The flows of a table as far as they can differ from those of another. */
function flowsOf(table: TableProgram, other: TableProgram, family: Family): Doors {
  const doors = new Map<string, Map<string, Flow>>();
  if (sameChains(table, other)) return doors;
  const endpoints = new Endpoints(table);
  for (const [name, rules] of table.chains) {
    // A chain with a tag is the same wherever it is; the chains of layout `flat` lead on to what may have changed.
    if (isService(name) || (isVersioned(name) && other.chains.has(name))) continue;
    for (const rule of rules) {
      const door = doorOf(rule, family);
      if (!door) continue;
      const key = `${door.flow.protocol} ${door.flow.address ?? '*'} ${door.flow.port}`;
      const flows = doors.get(key) ?? new Map<string, Flow>();
      for (const endpoint of endpoints.of(door.chain)) flows.set(endpoint, { ...door.flow, endpoint });
      if (flows.size > 0) doors.set(key, flows);
    }
  }
  return doors;
}

function sameChains(a: TableProgram, b: TableProgram): boolean {
  if (a.chains === b.chains) return true;
  return a.chains.size === b.chains.size && [...a.chains].every(([name, rules]) => b.chains.get(name) === rules);
}

const isService = (name: string): boolean => /^(KUBE|SLU)-(SVC|SVL|EXT|FW|SEP|GRP)-/.test(name);
const isVersioned = (name: string): boolean => /^(SLU-|SLUICE-[RT]-)/.test(name);

/** A rule that leads packets of one address and port, or of a node port, to the chains of a Service. */
function doorOf(rule: string, family: Family): { readonly flow: Flow; readonly chain: string } | undefined {
  const chain = / -j ((?:KUBE|SLU)-(?:SVC|SVL|EXT|FW)-\S+)$/.exec(rule)?.[1];
  const protocol = / -p (tcp|udp|sctp) /.exec(rule)?.[1] as Flow['protocol'] | undefined;
  const port = / --dport (\d+) /.exec(rule)?.[1];
  if (chain === undefined || protocol === undefined || port === undefined || rule.includes(' ! ')) return undefined;
  const address = / -d ([0-9a-f.:]+)(?:\/(?:32|128))? /.exec(rule)?.[1];
  return { flow: { family, protocol, address, port: Number(port), endpoint: undefined }, chain };
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
