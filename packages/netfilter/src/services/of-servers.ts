import type { Family } from '../family.ts';
import { anyAddress } from '../nftables/frontend.ts';
import { withPrefix } from '../nftables/networks.ts';
import { printEndpoint, type TransportProtocol } from '../rules/rule.ts';
import { type SetKey, nodePortSets, setName } from '../rules/sets.ts';
import { type IpvsState, printScheduler, type RealServer, type VirtualServer, virtualKey } from '../virtual/values.ts';
import { type DescribedFrontend, healthCheck } from './described.ts';
import { printFrontend } from './of-rule.ts';
import { ServicesOfTables } from './of-tables.ts';
import type {
  ForwardingState,
  NamedFrontend,
  ReachedFrontend,
  ServedFrontend,
  Service,
  ServiceEndpoint,
  Services,
} from './services.ts';

const noServers: ReadonlyMap<string, VirtualServer> = new Map();

export const serversOf = ({ ipvs }: ForwardingState): ReadonlyMap<string, VirtualServer> =>
  ipvs?.virtualServers ?? noServers;

/** The Services of mode ipvs: each virtual server is one. */
export class ServicesOfServers implements Services {
  readonly #state: ForwardingState;
  readonly #tables: ServicesOfTables;
  #byAddress: ReadonlyMap<string, readonly VirtualServer[]> | undefined;

  constructor(state: ForwardingState) {
    this.#state = state;
    this.#tables = new ServicesOfTables(state);
  }

  get count(): number {
    return serversOf(this.#state).size;
  }

  has(key: string): boolean {
    return serversOf(this.#state).has(key);
  }

  service(key: string): Service | undefined {
    const { ipvs } = this.#state;
    const server = ipvs?.virtualServers.get(key);
    return server && ipvs && serviceOfServer(server, ipvs);
  }

  any(family: Family): Service | undefined {
    for (const [key, server] of serversOf(this.#state)) if (server.family === family) return this.service(key);
    return undefined;
  }

  addresses(): ReadonlySet<string> {
    const all = [...serversOf(this.#state).values()].flatMap(({ real }) => [...real.values()]);
    return new Set(all.map(({ address }) => address));
  }

  /** Nothing names the Service of a virtual server: its key stands for it. */
  *frontends(family: Family, _withRejected: boolean, only?: TransportProtocol): Generator<NamedFrontend> {
    for (const [service, { family: its, protocol, address, port }] of serversOf(this.#state))
      if (its === family && (only ?? protocol) === protocol) yield { protocol, address, port, service };
  }

  describe(family: Family): readonly DescribedFrontend[] {
    const entriesOf = (set: SetKey): readonly string[] => [
      ...(this.#state.ipvs?.sets.get(setName(set, family))?.entries ?? []),
    ];
    const kinds = new Map(addressSets.flatMap(([set, kind]) => entriesOf(set).map((entry) => [entry, kind] as const)));
    const ranges = Map.groupBy(entriesOf('KUBE-LOAD-BALANCER-SOURCE-CIDR'), (entry) =>
      entry.slice(0, entry.lastIndexOf(',')),
    );
    const own = [...serversOf(this.#state).values()].filter((server) => server.family === family);
    return [
      ...own.map((server) => describeServer(server, kinds, ranges)),
      ...entriesOf('KUBE-HEALTH-CHECK-NODE-PORT').map(healthCheck),
    ];
  }

  at(address: string): readonly ReachedFrontend[] {
    const { ipvs } = this.#state;
    this.#byAddress ??= Map.groupBy(serversOf(this.#state).values(), (server) => server.address);
    return (this.#byAddress.get(address) ?? []).map((server) => {
      const { protocol, port } = server;
      const policy = ipvs && isLocalOutside(server, ipvs.sets) ? 'Local' : 'Cluster';
      const endpoints = ipvs ? [...serviceOfServer(server, ipvs).endpoints.values()] : [];
      // A virtual server of policy Local has those of other nodes where none is here, without masquerading: no answer comes back.
      const serving = endpoints.filter(({ weight, isHere }) => weight > 0 && (policy === 'Cluster' || isHere === true));
      return { protocol, port, policy, endpoints: serving.length };
    });
  }

  *served(protocol: TransportProtocol, unlike: ForwardingState): Generator<ServedFrontend> {
    if (this.#state.ipvs !== unlike.ipvs)
      for (const { family, protocol: its, address, port, real } of serversOf(this.#state).values())
        if (its === protocol) for (const endpoint of real.keys()) yield { family, protocol, address, port, endpoint };
    yield* this.#tables.served(protocol, unlike);
  }

  *refused(protocol: TransportProtocol, unlike: ForwardingState): Generator<Omit<ServedFrontend, 'endpoint'>> {
    if (this.#state.ipvs === unlike.ipvs) return;
    for (const { family, protocol: its, address, port, real } of serversOf(this.#state).values())
      if (its === protocol && real.size === 0) yield { family, protocol, address, port };
  }
}

/** Reads a virtual server as a Service. */
export function serviceOfServer(server: VirtualServer, { sets }: IpvsState): Service {
  const { family, protocol, real } = server;
  const here = sets.get(setName(hairpinSet, family))?.entries;
  const endpointOf = (one: RealServer): ServiceEndpoint => ({
    address: one.address,
    form: `:${one.port}`,
    chain: '',
    weight: one.weight,
    masqueradesItself: false,
    remembersClients: false,
    isHere: here?.has(hairpinEntry(protocol, one)) ?? false,
  });
  return {
    key: virtualKey(server),
    family: server.family,
    endpoints: new Map([...real].map(([text, one]) => [text, endpointOf(one)])),
    affinityOrder: [],
    choice: '',
    onlyMasquerades: true,
    frontends: [`${family} ${printFrontend(server)}`],
    isLocalOutside: isLocalOutside(server, sets),
  };
}

/** The sets that say what kind of address a virtual server has; it is external in none of them. */
const addressSets = [
  ['KUBE-LOAD-BALANCER', 'load-balancer'],
  ['KUBE-CLUSTER-IP', 'cluster'],
] as const satisfies readonly (readonly [SetKey, DescribedFrontend['kind']])[];

function describeServer(
  server: VirtualServer,
  kinds: ReadonlyMap<string, 'load-balancer' | 'cluster'>,
  ranges: ReadonlyMap<string, readonly string[]>,
): DescribedFrontend {
  const { family, protocol, address, port, persistence, real } = server;
  const entry = `${address},${protocol}:${port}`;
  const isOnNode = address === anyAddress[family];
  return {
    protocol,
    address: isOnNode ? undefined : address,
    port,
    ...(isOnNode ? {} : { kind: kinds.get(entry) ?? 'external' }),
    endpoints: [...real.values()].map((one) => ({ text: printEndpoint(one.address, one.port), weight: one.weight })),
    affinitySeconds: persistence === undefined ? [] : [persistence],
    scheduler: printScheduler(server),
    ranges: (ranges.get(entry) ?? []).map((range) => withPrefix(range.slice(entry.length + 1))),
  };
}

/** The set for connections of an endpoint to itself: it has the endpoints of this node. */
export const hairpinSet: SetKey = 'KUBE-LOOP-BACK';

/** `10.244.1.5,tcp:8080,10.244.1.5` */
export const hairpinEntry = (protocol: TransportProtocol, { address, port }: RealServer): string =>
  `${address},${protocol}:${port},${address}`;

/** Whether the sets have it as an external frontend with policy Local. */
function isLocalOutside({ family, protocol, address, port }: VirtualServer, sets: IpvsState['sets']): boolean {
  const has = (set: SetKey, entry: string): boolean => sets.get(setName(set, family))?.entries.has(entry) ?? false;
  const frontend = `${address},${protocol}:${port}`;
  const [, nodePorts] = nodePortSets[protocol];
  const outside = ['KUBE-EXTERNAL-IP-LOCAL', 'KUBE-LOAD-BALANCER-LOCAL', nodePorts] as const;
  return outside.some((set) => has(set, frontend)) || has(nodePorts, String(port));
}
