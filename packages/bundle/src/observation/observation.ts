import type { Family, TransportProtocol } from '@sluice/netfilter';
import type { HostFacts } from '../host-facts.ts';

/**
 * The Service data plane of a machine as its kernel has it: `sluiced observe` writes it, `sluice parity`, `sluice trace --live` and
 * `sluice show --host` read it. README.md, "Observations".
 */
export interface Observation extends ObservedState {
  /** The node's name in the bundle; of saved outputs, as the command line says. */
  readonly node: string;
  /** `/proc/sys/kernel/random/boot_id`; absent where it was not saved. */
  readonly bootId?: string;
  /** By tool: the version that it prints. */
  readonly tools: Readonly<Record<string, string>>;
  /** Tracked connections; absent where they were not read. Not in the digest: traffic changes them. */
  readonly connections?: ConnectionSummary;
  /** Parts that could not be read, in the order of `parts`. */
  readonly missing: readonly MissingPart[];
}

/** What the digest covers: equal for equal kernel states, whenever and by whichever tools they were read. */
export interface ObservedState {
  /** Absent where only outputs of tools were saved. */
  readonly host?: Omit<HostFacts, 'node'>;
  /** One for each store and family that could be read, nft before legacy, IPv4 before IPv6. */
  readonly rules: readonly SavedRules[];
  /** `ipset save`: each set with its entries, without counters and time-outs, sorted. */
  readonly sets: readonly string[];
  /** `ipvsadm -S -n`: each virtual server with its real servers, sorted. */
  readonly servers: readonly string[];
  /** Addresses of `kube-ipvs0`, sorted. */
  readonly serverAddresses: Readonly<Record<Family, readonly string[]>>;
  /** Tables of nftables with a hook that packets meet, without those of iptables, by family and name. */
  readonly nftTables: readonly NftTable[];
  /** `ip route show table all`, sorted, without expiry. Not in the digest: routes of pods come and go. */
  readonly routes: readonly string[];
  /** Addresses with their interfaces, `eth0 192.0.2.11/24`, sorted. Not in the digest, for the same reason. */
  readonly interfaces: readonly string[];
  /** By name, such as `net.ipv4.ip_forward`; a name that the kernel lacks is absent. */
  readonly sysctls: Readonly<Record<string, string>>;
}

/** One rule store of one family as its save tool prints it, without comments and counters. */
export interface SavedRules {
  readonly store: RuleStoreName;
  readonly family: Family;
  readonly lines: readonly string[];
}

export type RuleStoreName = 'nft' | 'legacy';

/** A table as `nft -j list table` prints it. */
export interface NftTable {
  readonly family: 'ip' | 'ip6' | 'inet';
  readonly name: string;
  /** Chains, sets, maps and rules, without handles, counters, and the elements that packets add. */
  readonly objects: readonly NftObject[];
}

/** `{"chain": {…}}`, `{"rule": {…}}` … of libnftables-json(5). */
export type NftObject = Readonly<Record<string, unknown>>;

/** Tracked connections from one frontend to one endpoint. */
export interface ObservedConnections {
  readonly protocol: TransportProtocol;
  /** The destination as clients send it: `10.96.0.10:80`; of a node port, an address of the node. */
  readonly frontend: string;
  /** Where connection tracking translates it to: `10.244.1.5:8080`. */
  readonly endpoint: string;
  /** TCP and SCTP: established ones. UDP: flows, answered or not. */
  readonly count: number;
}

/** What connection tracking has at one moment, summed up. */
export interface ConnectionSummary {
  /** By protocol, frontend and endpoint. */
  readonly pairs: readonly ObservedConnections[];
  /** Lines behind the limit of lines, and connections of pairs behind that of pairs: not counted above. */
  readonly left: number;
}

/** The parts of an observation that may be missing. */
export const parts = [
  'host',
  'rules-nft-ipv4',
  'rules-nft-ipv6',
  'rules-legacy-ipv4',
  'rules-legacy-ipv6',
  'sets',
  'servers',
  'addresses',
  'nft-tables',
  'routes',
  'sysctls',
  'connections',
] as const;
export type ObservationPart = (typeof parts)[number];

export interface MissingPart {
  readonly part: ObservationPart;
  /** A clause: `ipset is not installed`. */
  readonly why: string;
}

/** The format that `sluiced observe` writes; a reader refuses any other. */
export const observationFormat = 1;

/** Bounds of a file and of its parts. README.md, "Observations". */
export const observationLimits = {
  fileBytesMax: 512 * 1024 * 1024,
  /** Of one part. At 10,000 Services with 5 endpoints each a store has 230,000 rules. */
  linesMax: 4_000_000,
  lineBytesMax: 64 * 1024,
  nftTablesMax: 64,
  nftObjectsMax: 2_000_000,
  /** Of lists and maps in each other in one object of nft; the deepest statement that nft prints has some ten. */
  nftDepthMax: 32,
  namesMax: 10_000,
  /** Of `conntrack -L`: twice the connections of a busy node. */
  connectionLinesMax: 1_000_000,
  connectionPairsMax: 100_000,
} as const;
