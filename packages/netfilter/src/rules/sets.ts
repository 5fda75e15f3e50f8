import type { Family } from '../family.ts';
import type { TransportProtocol } from './rule.ts';

/** The parts of a set's entries. */
export type SetType = 'hash:ip' | 'hash:ip,port' | 'hash:ip,port,ip' | 'hash:ip,port,net' | 'bitmap:port';

/** A set of mode ipvs. */
interface KnownSet {
  readonly type: SetType;
  /** The comment of rules that match this set. */
  readonly comment: string;
}

const service = 'Kubernetes service';
const nodePort = 'Kubernetes nodeport';

/**
 * Every set of mode ipvs under its name for IPv4, with the comment of its rules (kubernetes/kubernetes
 * `pkg/proxy/ipvs/proxier.go`, `ipsetInfo`, and `pkg/proxy/ipvs/ipset.go`).
 */
const known = {
  'KUBE-CLUSTER-IP': { type: 'hash:ip,port', comment: `${service} cluster ip + port for masquerade purpose` },
  'KUBE-EXTERNAL-IP': {
    type: 'hash:ip,port',
    comment: `${service} external ip + port for masquerade and filter purpose`,
  },
  'KUBE-EXTERNAL-IP-LOCAL': {
    type: 'hash:ip,port',
    comment: `${service} external ip + port with externalTrafficPolicy=local`,
  },
  'KUBE-HEALTH-CHECK-NODE-PORT': { type: 'bitmap:port', comment: 'Kubernetes health check node port' },
  'KUBE-IPVS-IPS': { type: 'hash:ip', comment: 'Addresses on the ipvs interface' },
  'KUBE-LOAD-BALANCER': { type: 'hash:ip,port', comment: `${service} lb portal` },
  'KUBE-LOAD-BALANCER-FW': {
    type: 'hash:ip,port',
    comment: `${service} load balancer ip + port for load balancer with sourceRange`,
  },
  'KUBE-LOAD-BALANCER-LOCAL': {
    type: 'hash:ip,port',
    comment: `${service} load balancer ip + port with externalTrafficPolicy=local`,
  },
  'KUBE-LOAD-BALANCER-SOURCE-CIDR': {
    type: 'hash:ip,port,net',
    comment: `${service} load balancer ip + port + source cidr for packet filter purpose`,
  },
  'KUBE-LOAD-BALANCER-SOURCE-IP': {
    type: 'hash:ip,port,ip',
    comment: `${service} load balancer ip + port + source IP for packet filter purpose`,
  },
  'KUBE-LOOP-BACK': {
    type: 'hash:ip,port,ip',
    comment: 'Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose',
  },
  'KUBE-NODE-PORT-LOCAL-SCTP-HASH': {
    type: 'hash:ip,port',
    comment: `${nodePort} SCTP port with externalTrafficPolicy=local with type 'hash ip:port'`,
  },
  'KUBE-NODE-PORT-LOCAL-TCP': { type: 'bitmap:port', comment: `${nodePort} TCP port with externalTrafficPolicy=local` },
  'KUBE-NODE-PORT-LOCAL-UDP': { type: 'bitmap:port', comment: `${nodePort} UDP port with externalTrafficPolicy=local` },
  'KUBE-NODE-PORT-SCTP-HASH': {
    type: 'hash:ip,port',
    comment: `${nodePort} SCTP port for masquerade purpose with type 'hash ip:port'`,
  },
  'KUBE-NODE-PORT-TCP': { type: 'bitmap:port', comment: `${nodePort} TCP port for masquerade purpose` },
  'KUBE-NODE-PORT-UDP': { type: 'bitmap:port', comment: `${nodePort} UDP port for masquerade purpose` },
} as const satisfies Record<string, KnownSet>;

/** The name of a set without its family. */
export type SetKey = keyof typeof known;

/** Every set, in byte order of the names for IPv4. */
export const setKeys = Object.keys(known) as readonly SetKey[];

/** The sets of node ports by protocol: all, and those with externalTrafficPolicy Local. Entries are `30080`, or `192.0.2.11,sctp:30080`. */
export const nodePortSets = {
  tcp: ['KUBE-NODE-PORT-TCP', 'KUBE-NODE-PORT-LOCAL-TCP'],
  udp: ['KUBE-NODE-PORT-UDP', 'KUBE-NODE-PORT-LOCAL-UDP'],
  sctp: ['KUBE-NODE-PORT-SCTP-HASH', 'KUBE-NODE-PORT-LOCAL-SCTP-HASH'],
} as const satisfies Record<TransportProtocol, readonly [SetKey, SetKey]>;

/** Type and entries of a set of kube-proxy's mode ipvs, by its key (pkg/proxy/ipvs/ipset.go). */
export function knownSet(key: SetKey): KnownSet {
  return known[key];
}

/** The maximum of ipset for names (`IPSET_MAXNAMELEN` without the terminator). */
const nameBytesMax = 31;

/** The name of a set in a family: `KUBE-CLUSTER-IP`, `KUBE-6-CLUSTER-IP`; truncated to the maximum of ipset, as by kube-proxy. */
export function setName(key: SetKey, family: Family): string {
  return family === 'ipv4' ? key : key.replace('KUBE-', 'KUBE-6-').slice(0, nameBytesMax);
}

const byName = new Map(
  (['ipv4', 'ipv6'] as const).flatMap((family) =>
    setKeys.map((key) => [setName(key, family), { key, family, type: knownSet(key).type }] as const),
  ),
);

/** Finds a set and its family by name; undefined for foreign sets. */
export function findSet(
  name: string,
): { readonly key: SetKey; readonly family: Family; readonly type: SetType } | undefined {
  return byName.get(name);
}

/** The set whose members are the addresses of `kube-ipvs0`. */
export const addressSet = 'KUBE-IPVS-IPS' satisfies SetKey;

/** The interface with the Services' addresses, which makes them local to the kernel. */
export const ipvsInterface = 'kube-ipvs0';

/** The number of parts of a set's entry; a rule that matches the set has a direction for each. */
export function dimensionsOf(type: SetType): number {
  return type === 'bitmap:port' ? 1 : type.split(',').length;
}
