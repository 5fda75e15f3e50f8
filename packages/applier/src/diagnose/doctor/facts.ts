import type { DescribedFrontend, Family, ListedTable, Problem, Unread } from '@sluice/netfilter';
import type { TrackedFlow } from '../../ports/kernel.ts';
import type { NodeState } from '../../ports/node-state.ts';

/**
 * What was seen of a node: plain values, read once. A part that could not be read is left out and named in `unread`, so that a check
 * without its facts finds nothing instead of guessing.
 */
export interface Facts {
  readonly node: string;
  readonly sluiced: SluicedFacts;
  /** Left out: there is no active generation, or it cannot be read. */
  readonly desired?: DesiredFacts;
  /** The steps that would make the kernel hold the active generation. */
  readonly differences?: readonly string[];
  /** All tables of both rule stores, without the chains of single Services. */
  readonly tables?: readonly SavedTable[];
  /** Tables of store nft that iptables cannot print, with the rules of other programs that it has no form for. */
  readonly unprinted?: readonly UnprintedTable[];
  /** Packets that foreign rules of iptables have counted which decide about followed packets, by `Meeting.rule`. */
  readonly ruleCounters?: ReadonlyMap<string, number>;
  /** The tables of nftables that neither iptables nor Sluice made. */
  readonly nftTables?: readonly NftTableFacts[];
  readonly interfaces?: readonly InterfaceFacts[];
  readonly routes?: readonly RouteFacts[];
  /** A pod of this node in each family, where a route shows one. */
  readonly pods?: readonly PodFacts[];
  /** How full the neighbour tables are; empty where their limits cannot be seen, as in network namespaces but the first. */
  readonly neighbours?: readonly NeighbourFacts[];
  /** Addresses of next hops that do not answer. */
  readonly failedNeighbours?: readonly string[];
  /** Values below /proc/sys, by their path: `net/ipv4/ip_forward`. A key that this kernel lacks is left out. */
  readonly sysctls?: ReadonlyMap<string, string>;
  readonly counters?: CounterFacts;
  readonly conntrack?: ConntrackFacts;
  readonly kubeProxies?: readonly number[];
  readonly listeners?: readonly ListenerFacts[];
  readonly disk?: DiskFacts;
  readonly clock?: ClockFacts;
  /** Tools that the mode needs, and the node lacks. */
  readonly missingTools?: readonly string[];
  /** The kernel and the tools that run here, with their versions: for people. */
  readonly versions?: ReadonlyMap<string, string>;
  readonly modules?: ModuleFacts;
  /** Mode nftables: why nft cannot write to this kernel; empty: it can. */
  readonly cannotWrite?: string;
  /** `--live`: what own packets met. */
  readonly live?: LiveFacts;
  readonly unread: readonly Unread[];
}

/** The journal, the bundle directory and the daemon. */
export interface SluicedFacts {
  readonly generation: number | undefined;
  readonly version: string | undefined;
  readonly halted: string | undefined;
  /** The version of a change in progress. */
  readonly open: string | undefined;
  readonly quarantinedServices: readonly { readonly service: string; readonly because: string }[];
  readonly bundle: BundleFacts;
  /** Services that the bundle in the directory, or its live endpoints, leave out: of `quarantine.yaml`. */
  readonly leftOut: ReadonlyMap<string, LeftOut>;
  /** About a release that this node accepts nevertheless: its time or its signatures have ended. */
  readonly releaseWarnings: readonly Problem[];
  readonly isDaemonRunning: boolean;
  /** By code. */
  readonly alarms: Readonly<Record<string, string>>;
  /** What the daemon says of live endpoints; empty: nothing. */
  readonly liveNote: string;
}

/** What a `quarantine.yaml` has of a Service: the codes of its problems. */
export interface LeftOut {
  readonly directory: string;
  readonly codes: readonly string[];
}

/** The bundle directory, as the daemon reads it. */
export type BundleFacts =
  | { readonly kind: 'same' | 'absent'; readonly directory: string }
  | { readonly kind: 'newer'; readonly directory: string; readonly version: string; readonly quarantined?: string }
  | {
      readonly kind: 'refused';
      readonly directory: string;
      readonly code: string;
      readonly message: string;
      readonly hint: string;
    };

/** What the active generation wants. */
export interface DesiredFacts {
  readonly mode: 'iptables' | 'ipvs' | 'nftables';
  /** The tools of the rule store, as an operator types them: `iptables-nft`. */
  readonly store: 'nft' | 'legacy';
  readonly state: NodeState;
  readonly frontends: readonly Frontend[];
  /** The addresses that the bundle gives this node; empty where it names none. */
  readonly nodeAddresses: readonly string[];
}

export interface Frontend extends DescribedFrontend {
  readonly family: Family;
}

/** One table of a rule store, as `iptables-save -c` prints it. */
export interface SavedTable {
  readonly store: 'nft' | 'legacy';
  readonly family: Family;
  readonly table: string;
  readonly chains: ReadonlyMap<string, SavedChain>;
}

export interface UnprintedTable {
  /** `ipv4 filter`, as differences name it. */
  readonly table: string;
  readonly rules: readonly {
    /** `ip filter INPUT` */
    readonly chain: string;
    /** `ip filter INPUT handle 3 (ct state established : related accept)` */
    readonly rule: string;
  }[];
}

interface SavedChain {
  /** `ACCEPT`, `DROP`; `-` for a chain that is not built in. */
  readonly policy: string;
  /** Without counters. */
  readonly rules: readonly string[];
  /** It has further rules, which were not read. */
  readonly isCut?: true;
}

/** A table as `nft -j list table` prints it, with its chains, rules, sets and maps. Where single chains were listed, it has no sets. */
export interface NftTableFacts extends ListedTable {
  /** Chains that have further rules, which were not read. */
  readonly cut?: readonly string[];
}

export interface InterfaceFacts {
  readonly name: string;
  readonly isUp: boolean;
  readonly mtu: number;
  readonly kind: string;
  readonly addresses: readonly string[];
  /** The bridge that it is a port of. */
  readonly bridge?: BridgePort;
}

interface BridgePort {
  readonly name: string;
  /** Whether it sends packets back to where they came from. */
  readonly isHairpin: boolean;
}

/** The route of one packet, as `ip route get` answers. */
export interface RouteFacts {
  readonly to: string;
  /** The source, where the question names one. */
  readonly from?: string;
  /** The interface by which the packet arrives, where the question names one. */
  readonly iif?: string;
  /** Left out: there is no route, because of `why`. */
  readonly dev?: string;
  readonly via?: string;
  readonly isLocal: boolean;
  readonly why?: string;
}

/** The address of a pod, and the interface to it. */
export interface PodFacts {
  readonly address: string;
  readonly dev: string;
}

/** Counters of this network namespace since it exists. */
export interface CounterFacts {
  /** IPv4 packets. */
  readonly received: number;
  readonly reversePathFilter: number;
  readonly fragmentsFailed: number;
  readonly packetsTooBig: number;
  readonly insertFailed: number;
  readonly dropped: number;
  readonly earlyDropped: number;
}

/** The neighbour table of a family, one for all network namespaces. */
export interface NeighbourFacts {
  readonly family: Family;
  readonly entries: number;
  /** `gc_thresh3` */
  readonly max: number;
  /** How often it was full since the boot. */
  readonly fulls: number;
}

export interface ConntrackFacts {
  readonly count: number;
  readonly max: number;
  /** Connections by the endpoint that answers, of those endpoints that were asked about. */
  readonly endpoints: ReadonlyMap<string, EndpointConnections>;
  /** UDP connections to endpoints that their frontend no longer has. */
  readonly stale: readonly TrackedFlow[];
  /** TCP connections to these addresses that were begun before anything translated them, and are still without a reply: `10.96.0.10:80`. */
  readonly untranslated: ReadonlySet<string>;
}

export interface EndpointConnections {
  /** Both directions have had packets, and the connection was accepted. */
  readonly answered: number;
  /** Without any reply. */
  readonly silent: number;
  /** Masqueraded ones. */
  readonly masqueraded: number;
}

export interface ListenerFacts {
  readonly protocol: 'tcp' | 'udp';
  readonly address: string;
  readonly port: number;
  /** `nginx (pid 812)` */
  readonly program: string;
}

export interface DiskFacts {
  readonly path: string;
  readonly freeBytes: number;
  readonly freeInodes: number;
  /** 0 where the file system does not count them. */
  readonly inodes: number;
  readonly isReadOnly: boolean;
}

export interface ClockFacts {
  readonly nowMs: number;
  /** When the state directory was last written, by its files. */
  readonly stateMs: number;
}

/** The modules that this kernel could load. */
export interface ModuleFacts {
  /** The release of the running kernel: `6.12.48-amd64`. */
  readonly release: string;
  /** The releases whose modules are installed. */
  readonly installed: readonly string[];
}

/** What own packets met, with `--live`. */
export interface LiveFacts {
  /** By `address:port`: how a connection from this node ended. */
  readonly answers: ReadonlyMap<string, LiveAnswer>;
  /** The rules that the packet to `traced` met, as `nft monitor trace` prints them, and as the kernel logs those of store legacy. */
  readonly trace: readonly string[];
  /** `10.96.0.10:80`; left out: no packet was traced. */
  readonly traced?: string;
}

export type LiveAnswer = 'answered' | 'refused' | 'silent' | 'unreachable';
