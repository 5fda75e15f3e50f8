import { families } from '../family.ts';
import { tableNames } from '../link/program.ts';
import { setName } from '../rules/sets.ts';
import { type IpSet, type IpvsState, printAttributes, type VirtualServer } from '../virtual/values.ts';
import { sameTable } from './plain-rules.ts';
import { hairpinEntry, hairpinSet, serversOf, ServicesOfServers, serviceOfServer } from './of-servers.ts';
import { tableOf } from './of-tables.ts';
import {
  ComparedStates,
  type Comparison,
  type ForwardingState,
  type FrontendChange,
  type Service,
  type ServiceChange,
} from './services.ts';

type Servers = ReadonlyMap<string, VirtualServer>;

const noIpvs: IpvsState = { virtualServers: new Map(), sets: new Map(), addresses: { ipv4: [], ipv6: [] } };
const ipvsOf = ({ ipvs = noIpvs }: ForwardingState): IpvsState => ipvs;

/**
 * Two states of mode ipvs. Their rules are equal whatever the endpoints: a virtual server without real servers refuses connections by
 * itself. Of the sets only the one for connections of an endpoint to itself changes with them.
 */
export class ComparisonOfServers<S extends ForwardingState> extends ComparedStates<S> implements Comparison<S> {
  readonly changed: readonly ServiceChange[];
  readonly added: readonly ServiceChange[];
  readonly removed: readonly ServiceChange[];

  constructor(from: S, to: S) {
    super(from, to, new ServicesOfServers(from));
    const [had, has] = [serversOf(from), serversOf(to)];
    const change = (key: string): ServiceChange => changeOf(key, ipvsOf(from), ipvsOf(to));
    this.changed = [...had].flatMap(([key, server]) => {
      const other = has.get(key);
      return other && !sameReal(server, other) ? [change(key)] : [];
    });
    const onlyIn = (some: Servers, others: Servers): readonly ServiceChange[] =>
      some === others ? [] : [...some.keys()].filter((key) => !others.has(key)).map(change);
    this.added = onlyIn(has, had);
    this.removed = onlyIn(had, has);
  }

  get isRestSame(): boolean {
    const [a, b] = [ipvsOf(this.before), ipvsOf(this.after)];
    const sameRules = families.every((family) =>
      tableNames.every((name) => sameTable(tableOf(this.before, family, name), tableOf(this.after, family, name))),
    );
    if (!sameRules || a === b) return sameRules;
    const { added, removed } = this;
    const isSame =
      added.length + removed.length === 0 &&
      JSON.stringify([a.addresses, a.timeouts]) === JSON.stringify([b.addresses, b.timeouts]) &&
      [...a.virtualServers].every(([key, server]) => sameAttributes(server, b.virtualServers.get(key)));
    if (!isSame) return false;
    const sets = this.changed.length === 0 ? a.sets : setsWith(a, b, b.virtualServers);
    return sets.size === b.sets.size && [...sets].every(([name, set]) => sameSet(set, b.sets.get(name)));
  }

  /** Virtual servers are Services and frontends in one. */
  get frontends(): readonly FrontendChange[] | undefined {
    return this.isRestSame ? [] : undefined;
  }

  withEndpoints(some: readonly ServiceChange[]): S {
    if (some.length === 0) return this.before;
    const [own, other] = [ipvsOf(this.before), ipvsOf(this.after)];
    const virtualServers = new Map(own.virtualServers);
    for (const { key } of some) {
      const [server, updated] = [own.virtualServers.get(key), other.virtualServers.get(key)];
      if (server && updated) virtualServers.set(key, { ...server, real: updated.real });
    }
    return { ...this.before, ipvs: { ...own, virtualServers, sets: setsWith(own, other, virtualServers) } };
  }
}

function changeOf(key: string, from: IpvsState, to: IpvsState): ServiceChange {
  const service = (state: IpvsState): Service | undefined => {
    const server = state.virtualServers.get(key);
    return server && serviceOfServer(server, state);
  };
  return {
    key,
    name: key,
    get before() {
      return service(from);
    },
    get after() {
      return service(to);
    },
    /** A changed scheduler or time-out needs a release: the server keeps its own. */
    get fits() {
      const portsOf = (state: IpvsState): ReadonlySet<number> =>
        new Set([...(state.virtualServers.get(key)?.real.values() ?? [])].map(({ port }) => port));
      const [had, has] = [portsOf(from), portsOf(to)];
      return had.size === 0 || [...has].every((port) => had.has(port));
    },
  };
}

/** Whether two virtual servers have the same real servers with the same weights. */
function sameReal({ real: a }: VirtualServer, { real: b }: VirtualServer): boolean {
  return a === b || (a.size === b.size && [...a].every(([endpoint, { weight }]) => b.get(endpoint)?.weight === weight));
}

const sameAttributes = (a: VirtualServer, b: VirtualServer | undefined): boolean =>
  a === b || (b !== undefined && a.family === b.family && printAttributes(a) === printAttributes(b));

function sameSet(a: IpSet, b: IpSet | undefined): boolean {
  if (!b || a === b) return a === b;
  return (
    a.family === b.family &&
    a.type === b.type &&
    a.maxElements === b.maxElements &&
    a.entries.size === b.entries.size &&
    [...a.entries].every((entry) => b.entries.has(entry))
  );
}

/** The sets with the entries of both sets for connections of an endpoint to itself, as far as there are such endpoints. */
function setsWith(own: IpvsState, other: IpvsState, servers: Servers): IpvsState['sets'] {
  const sets = new Map(own.sets);
  for (const family of families) {
    const name = setName(hairpinSet, family);
    const [before, after] = [own.sets.get(name), other.sets.get(name)];
    if (!before || !after) continue;
    const served = new Set(
      [...servers.values()]
        .filter((server) => server.family === family)
        .flatMap(({ protocol, real }) => [...real.values()].map((one) => hairpinEntry(protocol, one))),
    );
    sets.set(name, {
      ...before,
      entries: new Set([...before.entries, ...after.entries].filter((one) => served.has(one))),
    });
  }
  return sets;
}
