import type { Family } from '../family.ts';
import { printEndpoint, type TransportProtocol } from '../rules/rule.ts';
import { perObjectInUse } from '../per-object.ts';
import { compareText } from '../problem.ts';
import { type NftScheduler, readNftScheduler } from './scheduler.ts';

/** One address (or node port), protocol and port from which a node forwards connections to endpoints. */
export interface NftFrontend {
  /** `10.96.0.10 . tcp . 80` */
  readonly key: string;
  readonly family: Family;
  readonly protocol: TransportProtocol;
  /** `0.0.0.0` or `::`: a node port, at the addresses in set `node`. */
  readonly address: string;
  readonly port: number;
  /** Whether the address is a ClusterIP. */
  readonly isClusterIP: boolean;
  /** How it is reached from outside; left out: not meant for that. */
  readonly outside?: 'cluster' | 'local';
  /** Session affinity, 1 to 86400. */
  readonly affinitySeconds?: number;
  /** How it chooses among endpoints; left out: at random. Never with session affinity. */
  readonly scheduler?: NftScheduler;
  /** What happens where no endpoint serves it; left out: the state says that this cannot happen. */
  readonly none?: 'refuse' | 'drop';
  /** The only sources that may use it: addresses and networks, none of them in another one. Empty: all may. */
  readonly ranges: readonly string[];
  /** `10.244.1.5 . 8080`, in the order of their slots. */
  readonly endpoints: readonly string[];
  /** Those that serve sources from outside with policy Local. */
  readonly local: readonly string[];
  /** The addresses of endpoints on this node: only their packets can be translated to themselves here. Left out: none. */
  readonly here?: readonly string[];
  /** By endpoint, 2 to 65535; those without one have weight 1. Left out where all have. */
  readonly weights?: ReadonlyMap<string, number>;
}

/** The address of node ports, by family. */
export const anyAddress = { ipv4: '0.0.0.0', ipv6: '::' } as const satisfies Record<Family, string>;

/** Of ` . `, between the parts of a key. */
const dotLength = 3;

/** The parts of a frontend's key. */
export function readFrontendKey(key: string): Pick<NftFrontend, 'key' | 'family' | 'protocol' | 'address' | 'port'> {
  // Without an array, for speed: reviews read the keys of large bundles many times.
  const [first, last] = [key.indexOf(' '), key.lastIndexOf(' ')];
  const address = key.slice(0, first);
  return {
    key,
    family: address.includes(':') ? 'ipv6' : 'ipv4',
    protocol: key.slice(first + dotLength, last - dotLength + 1) as TransportProtocol,
    address,
    port: Number(key.slice(last + 1)),
  };
}

/** A frontend's key in a state and in the maps of the table: `10.96.0.10 . tcp . 80`; of a node port the address is `0.0.0.0` or `::`. */
export const frontendKey = ({ address, protocol, port }: Pick<NftFrontend, 'address' | 'protocol' | 'port'>): string =>
  `${address} . ${protocol} . ${port}`;

export const isNodePort = ({ address, family }: Pick<NftFrontend, 'address' | 'family'>): boolean =>
  address === anyAddress[family];

/** The lines of a frontend in a state, in an order of their own: equal frontends have equal lines. */
export function frontendLines(
  frontend: Omit<NftFrontend, 'key' | 'family' | 'protocol' | 'address' | 'port'>,
): readonly string[] {
  const {
    isClusterIP,
    outside,
    affinitySeconds,
    scheduler,
    none,
    ranges,
    endpoints,
    local,
    weights,
    here = [],
  } = frontend;
  const weighted = weights ? [...new Set([...endpoints, ...local])].filter((one) => (weights.get(one) ?? 1) > 1) : [];
  return [
    ...(isClusterIP ? ['cluster-ip'] : []),
    ...(outside ? [`outside ${outside}`] : []),
    ...(affinitySeconds === undefined ? [] : [`affinity ${affinitySeconds}`]),
    ...(scheduler ? [`scheduler ${scheduler}`] : []),
    ...(none ? [`none ${none}`] : []),
    ...ranges.map((range) => `range ${range}`),
    ...endpoints.map((endpoint) => `endpoint ${endpoint}`),
    ...local.map((endpoint) => `local ${endpoint}`),
    ...here.map((address) => `here ${address}`),
    ...weighted.map((endpoint) => `weight ${weights?.get(endpoint)} ${endpoint}`),
  ];
}

type FrontendBody = Omit<NftFrontend, 'key' | 'family' | 'protocol' | 'address' | 'port'>;

const bodyOf = perObjectInUse((lines: readonly string[]): FrontendBody => {
  const byWord = new Map<string, string[]>();
  for (const line of lines) {
    const end = line.indexOf(' ');
    if (end < 0) continue;
    const [word, rest] = [line.slice(0, end), line.slice(end + 1)];
    const some = byWord.get(word);
    if (some) some.push(rest);
    else byWord.set(word, [rest]);
  }
  const of = (word: string): readonly string[] => byWord.get(word) ?? [];
  const [outside] = of('outside') as readonly ('cluster' | 'local')[];
  const [affinity] = of('affinity');
  const [scheduler] = of('scheduler').map(readNftScheduler);
  const [none] = of('none') as readonly ('refuse' | 'drop')[];
  const weights = of('weight').map((text): [string, number] => {
    const end = text.indexOf(' ');
    return [text.slice(end + 1), Number(text.slice(0, end))];
  });
  return {
    isClusterIP: lines[0] === 'cluster-ip',
    ...(outside ? { outside } : {}),
    ...(affinity === undefined ? {} : { affinitySeconds: Number(affinity) }),
    ...(scheduler ? { scheduler } : {}),
    ...(none ? { none } : {}),
    ranges: of('range'),
    endpoints: of('endpoint'),
    local: of('local'),
    here: of('here'),
    ...(weights.length > 0 ? { weights: new Map(weights) } : {}),
  };
});

/** Reads a frontend of a state. `frontendLines(readFrontend(key, lines))` is `lines`. */
export function readFrontend(key: string, lines: readonly string[]): NftFrontend {
  return { ...readFrontendKey(key), ...bodyOf(lines) };
}

/** The addresses of endpoints of a frontend, each once, in byte order. @param chosen of all of them */
export function addressesHere(
  { endpoints, local }: Pick<NftFrontend, 'endpoints' | 'local'>,
  chosen: (address: string) => boolean,
): readonly string[] {
  const addresses = [...endpoints, ...local].map((endpoint) => endpoint.slice(0, endpoint.indexOf(' ')));
  return [...new Set(addresses)].filter(chosen).toSorted(compareText);
}

/** `10.244.1.5:8080` of `10.244.1.5 . 8080`: an endpoint as other data planes spell it. */
export function printNftEndpoint(endpoint: string): string {
  const end = endpoint.indexOf(' ');
  return printEndpoint(endpoint.slice(0, end), Number(endpoint.slice(end + dotLength)));
}
