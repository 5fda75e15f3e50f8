import { type Family, type TrafficPolicy, type TransportProtocol, compareText } from '@sluice/netfilter';

/**
 * The facts of one Service in one family, over all nodes. They are read from the rules; the comment block above them gives only what
 * no rule contains: the type, the nodes and zones of endpoints, and the settings of a load balancer without address or endpoints.
 */
export interface ServiceFacts {
  /** `shop/web` */
  readonly service: string;
  readonly family: Family;
  /** `ClusterIP`, `NodePort` or `LoadBalancer`; absent when the comment block does not say. */
  readonly type?: string;
  /** By key. */
  readonly ports: readonly PortFacts[];
}

export interface PortFacts {
  /** `shop/web:http 80/TCP`: the port's name in rules, its number and protocol. */
  readonly key: string;
  readonly protocol: TransportProtocol;
  /** In byte order of text. */
  readonly addresses: readonly AddressFacts[];
  /** 0: none. */
  readonly nodePort: number;
  /** Endpoints that at least one node uses, by text. */
  readonly endpoints: readonly EndpointFacts[];
  readonly internalPolicy: TrafficPolicy;
  readonly externalPolicy: TrafficPolicy;
  /** Seconds; absent: no affinity. Several values where rules disagree. */
  readonly affinity?: readonly number[];
  /** Mode ipvs: the scheduler with its flags, `wrr` or `mh mh-port`; mode nftables: `random`, `maglev 1009`. Several where frontends disagree. */
  readonly scheduler?: string;
  /** CIDRs that may use the load-balancer addresses; empty: all sources. */
  readonly sourceRanges: readonly string[];
  /** 0: none. */
  readonly healthCheckPort: number;
}

export interface AddressFacts {
  readonly kind: 'cluster' | 'external' | 'load-balancer';
  /** `10.96.0.10:80` */
  readonly text: string;
}

export interface EndpointFacts {
  /** `10.244.1.5:8080` */
  readonly text: string;
  readonly node?: string;
  readonly zone?: string;
  /** Modes ipvs and nftables: absent for 1. Several where frontends disagree. */
  readonly weight?: string;
}

type Keyed = Pick<PortFacts, 'key'>;

/** `shop/web:http 80/TCP`. @param name `shop/web:http`, or `shop/web` for a port without a name */
export function portKey(name: string, port: number, protocol: TransportProtocol): string {
  return `${name} ${port}/${protocol.toUpperCase()}`;
}

/** `shop/web:http` of `shop/web:http 80/TCP`. */
export function portName({ key }: Keyed): string {
  return key.slice(0, key.lastIndexOf(' '));
}

/** `80/TCP` of `shop/web:http 80/TCP`: a Service has it once. */
export function numberAndProtocolOf({ key }: Keyed): string {
  return key.slice(key.lastIndexOf(' ') + 1);
}

/** A port before and after; one side may be missing. */
interface PortPair {
  readonly old?: PortFacts;
  readonly new?: PortFacts;
}

/**
 * The ports that a Service has in either bundle, by key. Clients identify a port by number and protocol, so a renamed port is the same
 * port: otherwise a lost endpoint would look like a removed and an added port.
 */
export function portPairs(old: ServiceFacts | undefined, updated: ServiceFacts | undefined): readonly PortPair[] {
  const before = new Map((old?.ports ?? []).map((port) => [numberAndProtocolOf(port), port]));
  const after = new Map((updated?.ports ?? []).map((port) => [numberAndProtocolOf(port), port]));
  return [...new Set([...before.keys(), ...after.keys()])]
    .map((number): PortPair => {
      const [was, is] = [before.get(number), after.get(number)];
      return { ...(was === undefined ? {} : { old: was }), ...(is === undefined ? {} : { new: is }) };
    })
    .toSorted((a, b) => compareText(keyOf(a), keyOf(b)));
}

const keyOf = (pair: PortPair): string => (pair.new ?? pair.old)!.key;
