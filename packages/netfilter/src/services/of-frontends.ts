import type { Family } from '../family.ts';
import { differing } from '../layered.ts';
import { isNodePort, type NftFrontend, printNftEndpoint, readFrontend, readFrontendKey } from '../nftables/frontend.ts';
import { withPrefix } from '../nftables/networks.ts';
import { perObject } from '../per-object.ts';
import { printEndpoint, type TransportProtocol } from '../rules/rule.ts';
import { type DescribedFrontend, healthCheck } from './described.ts';
import { printFrontend, type ServiceFrontend } from './of-rule.ts';
import type {
  ForwardingState,
  NamedFrontend,
  ReachedFrontend,
  ServedFrontend,
  Service,
  ServiceEndpoint,
  Services,
} from './services.ts';

/** Lines by the key of their frontend, as `NftState` has them. */
export type FrontendLines = ReadonlyMap<string, readonly string[]>;

const noFrontends: FrontendLines = new Map();

export const linesOf = ({ nft }: ForwardingState): FrontendLines => nft?.frontends ?? noFrontends;

/** The lists of a frontend: that of all sources, and with policy Local that of sources from outside. */
export type ListKind = 'all' | 'local';

const localMark = ' local';

/** `10.96.0.10:80/TCP`, of the local list `10.96.0.10:80/TCP local`. */
export function serviceKey({ address, port, protocol }: Parts, list: ListKind): string {
  return `${printEndpoint(address, port)}/${protocol.toUpperCase()}${list === 'local' ? localMark : ''}`;
}

type Parts = Pick<NftFrontend, 'address' | 'port' | 'protocol'>;

/** A list of a frontend by the key of its Service. */
interface ListPlace {
  readonly key: string;
  readonly list: ListKind;
}

const keyForm = /^(.+):(\d+)\/(TCP|UDP|SCTP)( local)?$/;

function placeOf(key: string): ListPlace | undefined {
  const [, address = '', port = '', protocol = '', mark] = keyForm.exec(key) ?? [];
  if (address === '') return undefined;
  const plain = address.replaceAll(/[[\]]/g, '');
  return { key: `${plain} . ${protocol.toLowerCase()} . ${port}`, list: mark === undefined ? 'all' : 'local' };
}

/** The lists that a frontend has, empty ones too. */
export const listsOf = ({ outside }: Pick<NftFrontend, 'outside'>): readonly ListKind[] =>
  outside === 'local' ? ['all', 'local'] : ['all'];

/** The Services of mode nftables: each list of a frontend is one. */
export class ServicesOfFrontends implements Services {
  readonly #state: ForwardingState;
  #byAddress: ReadonlyMap<string, readonly string[]> | undefined;

  constructor(state: ForwardingState) {
    this.#state = state;
  }

  get count(): number {
    let count = 0;
    for (const frontend of this.#all()) count += listsOf(frontend).length;
    return count;
  }

  has(key: string): boolean {
    return this.service(key) !== undefined;
  }

  service(key: string): Service | undefined {
    const place = placeOf(key);
    const lines = place && linesOf(this.#state).get(place.key);
    return place && lines && serviceOfFrontend(place.key, lines, place.list);
  }

  any(family: Family): Service | undefined {
    for (const [key, lines] of linesOf(this.#state))
      if (readFrontendKey(key).family === family) return serviceOfFrontend(key, lines, 'all');
    return undefined;
  }

  addresses(): ReadonlySet<string> {
    const found = new Set<string>();
    for (const frontend of this.#all())
      for (const list of [frontend.endpoints, frontend.local])
        for (const one of list) found.add(one.slice(0, one.indexOf(' ')));
    return found;
  }

  /** Nothing names the Service of a frontend. */
  *frontends(family: Family, withRejected: boolean, only?: TransportProtocol): Generator<NamedFrontend> {
    const own = linesOf(this.#state);
    for (const key of own.keys()) {
      if (only !== undefined && !isOf(only, key)) continue;
      const parts = readFrontendKey(key);
      if (parts.family !== family) continue;
      if (!withRejected && readFrontend(key, own.get(key) ?? []).endpoints.length === 0) continue;
      const { protocol, address, port } = named(parts);
      yield { protocol, address, port, service: frontendName(parts) };
    }
  }

  describe(family: Family): readonly DescribedFrontend[] {
    const frontends = [...this.#all()].filter((frontend) => frontend.family === family);
    const health = (this.#state.nft?.settings ?? []).filter((setting) => setting.startsWith('health '));
    // A node may send from the address of a restricted frontend, which is no source from outside.
    const own = new Set(frontends.flatMap(({ address, ranges }) => (ranges.length > 0 ? address : [])));
    return [
      ...frontends.map((frontend) => describeFrontend(frontend, own)),
      ...health.map((setting) => healthCheck(setting.slice('health '.length))),
    ];
  }

  at(address: string): readonly ReachedFrontend[] {
    const own = linesOf(this.#state);
    this.#byAddress ??= Map.groupBy(own.keys(), (key) => key.slice(0, key.indexOf(' ')));
    return (this.#byAddress.get(address) ?? []).map((key) => {
      const { protocol, port, isClusterIP, outside, endpoints, local } = readFrontend(key, own.get(key) ?? []);
      const policy = !isClusterIP && outside === 'local' ? 'Local' : 'Cluster';
      return { protocol, port, policy, endpoints: (policy === 'Local' ? local : endpoints).length };
    });
  }

  /** The endpoints of both lists, each once. */
  *served(protocol: TransportProtocol, unlike: ForwardingState): Generator<ServedFrontend> {
    for (const { endpoints, local, ...frontend } of this.#unlike(protocol, unlike))
      for (const one of new Set([...endpoints, ...local]))
        yield { ...placeFor(frontend), endpoint: printNftEndpoint(one) };
  }

  *refused(protocol: TransportProtocol, unlike: ForwardingState): Generator<Omit<ServedFrontend, 'endpoint'>> {
    for (const frontend of this.#unlike(protocol, unlike))
      if (frontend.endpoints.length === 0) yield placeFor(frontend);
  }

  /** The frontends of a protocol that another state has not, or not with the same lines. */
  *#unlike(protocol: TransportProtocol, other: ForwardingState): Generator<NftFrontend> {
    const own = linesOf(this.#state);
    for (const key of differing(own, linesOf(other))) {
      const lines = isOf(protocol, key) ? own.get(key) : undefined;
      if (lines) yield readFrontend(key, lines);
    }
  }

  *#all(): Generator<NftFrontend> {
    for (const [key, lines] of linesOf(this.#state)) yield readFrontend(key, lines);
  }
}

const placeFor = (frontend: Parts & Pick<NftFrontend, 'family'>): Omit<ServedFrontend, 'endpoint'> => ({
  family: frontend.family,
  protocol: frontend.protocol,
  address: isNodePort(frontend) ? undefined : frontend.address,
  port: frontend.port,
});

/** Whether the key of a frontend has a protocol: most keys need not be split to be passed over. */
const isOf = (protocol: TransportProtocol, key: string): boolean => key.includes(` . ${protocol} . `);

/** An address that is neither a ClusterIP nor restricted to some sources is an external one or that of a load balancer. */
function describeFrontend(frontend: NftFrontend, own: ReadonlySet<string>): DescribedFrontend {
  const { protocol, address, port, isClusterIP, outside, affinitySeconds, ranges, endpoints, local, weights } =
    frontend;
  const isOnNode = isNodePort(frontend);
  return {
    protocol,
    address: isOnNode ? undefined : address,
    port,
    ...(isClusterIP ? { kind: 'cluster' } : ranges.length > 0 ? { kind: 'load-balancer' } : {}),
    endpoints: [...new Set([...endpoints, ...local])].map((one) => ({
      text: printNftEndpoint(one),
      weight: weights?.get(one) ?? 1,
    })),
    ...(isClusterIP ? {} : { externalPolicy: outside === 'local' ? 'Local' : 'Cluster' }),
    affinitySeconds: affinitySeconds === undefined ? [] : [affinitySeconds],
    scheduler: frontend.scheduler ?? 'random',
    ranges: ranges.filter((range) => !own.has(range)).map(withPrefix),
  };
}

/** Endpoints by their lines: a list of many is read once. */
const endpointsOf = {
  all: perObject((lines: readonly string[]) => readEndpoints(lines, 'endpoint ')),
  local: perObject((lines: readonly string[]) => readEndpoints(lines, 'local ')),
} as const satisfies Record<ListKind, unknown>;

function readEndpoints(lines: readonly string[], word: string): ReadonlyMap<string, ServiceEndpoint> {
  const remembersClients = lines.some((line) => line.startsWith('affinity '));
  const weights = weightsIn(lines);
  const found = new Map<string, ServiceEndpoint>();
  for (const line of lines) {
    if (!line.startsWith(word)) continue;
    const text = line.slice(word.length);
    const [address = '', port = ''] = text.split(' . ');
    const form = `:${port}`;
    const weight = weights?.get(text) ?? 1;
    const own = { address, form, chain: '', weight, masqueradesItself: true, remembersClients };
    found.set(printEndpoint(address, Number(port)), own);
  }
  return found;
}

const weightsIn = (lines: readonly string[]): NftFrontend['weights'] => readFrontend(anyKey, lines).weights;

/** Of the lines of a frontend its key is no part. */
const anyKey = '0.0.0.0 . tcp . 1';

/**
 * A list of a frontend as a Service.
 * @returns undefined if the frontend has no such list
 */
export function serviceOfFrontend(key: string, lines: readonly string[], list: ListKind): Service | undefined {
  const frontend = readFrontend(key, lines);
  const lists = listsOf(frontend);
  if (!lists.includes(list)) return undefined;
  const { family, outside, affinitySeconds, scheduler = 'random' } = frontend;
  const endpoints = endpointsOf[list](lines);
  const sibling = lists.find((one) => one !== list);
  return {
    key: serviceKey(frontend, list),
    family,
    ...(sibling ? { siblingKey: serviceKey(frontend, sibling) } : {}),
    endpoints,
    // Each endpoint has an id that clients keep, whatever the order.
    affinityOrder: affinitySeconds === undefined ? [] : [...endpoints.keys()],
    choice: affinitySeconds === undefined ? scheduler : `affinity ${affinitySeconds}`,
    onlyMasquerades: true,
    frontends: [`${family} ${printFrontend(named(frontend))}`],
    isLocalOutside: outside === 'local',
  };
}

/** The name of a frontend's Service in messages: `10.96.0.10:80/TCP`, `node port 30080/TCP`. */
export const frontendName = (frontend: Parts & Pick<NftFrontend, 'family'>): string =>
  isNodePort(frontend) ? `node port ${frontend.port}/${frontend.protocol.toUpperCase()}` : serviceKey(frontend, 'all');

/** A frontend as other data planes name it: of a node port without an address. */
export const named = (frontend: ReturnType<typeof readFrontendKey>): ServiceFrontend =>
  isNodePort(frontend) ? { ...frontend, address: undefined } : frontend;
