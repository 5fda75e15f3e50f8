import type { Family, TransportProtocol } from '@sluice/netfilter';

/**
 * What `sluice parity -o json` prints: whether a node's kernel treats every packet of a Service as a bundle would. README.md, "Parity
 * reports". A certificate is made of it.
 */
export interface ParityReport {
  readonly node: string;
  /** Of the observation; absent for saved outputs. */
  readonly bootId?: string;
  /** `digest` of the observation. */
  readonly observedDigest: string;
  /** The version of the node's part of the bundle, 16 hex digits. */
  readonly version: string;
  /** Modes of both sides: `iptables`, `ipvs`, `nftables`; observed ones are those whose rules or servers translate packets. */
  readonly modes: { readonly observed: readonly string[]; readonly desired: string };
  /** Absent: all differences are here. */
  readonly base?: ParityBase;
  readonly result: ParityResult;
  readonly coverage: ParityCoverage;
  /** In the order of frontends; each id once. */
  readonly differences: readonly ParityDifference[];
  /** What becomes of tracked connections; absent where the observation has none of them. It does not count for the result. */
  readonly connections?: ParityConnections;
}

/** Connections that were tracked at the moment of the observation, and what a move to the bundle makes of them. */
export interface ParityConnections {
  /** To frontends of either side, the first 10,000 pairs of a frontend and an endpoint by protocol, frontend and endpoint. */
  readonly pairs: readonly ParityConnection[];
  /** Connections that are not in `pairs`. */
  readonly notCovered: {
    /** To addresses and ports that are no frontend of either side: of other programs. */
    readonly elsewhere: number;
    /** Behind a limit of the observation or of `pairs`. */
    readonly left: number;
  };
}

/**
 * `kept`: connection tracking translates their packets on, whatever the rules say. `stale`: the same, to an endpoint that the bundle does
 * not have there: of TCP and SCTP they end by their peers or time-outs. `removed`: stale ones of UDP, whose clients would never get
 * another endpoint: `sluiced` deletes them. `ends`: IPVS forwards them, and the move removes its virtual servers.
 */
export const connectionOutcomes = ['kept', 'stale', 'removed', 'ends'] as const;

export interface ParityConnection {
  /** As of a difference. */
  readonly frontend: string;
  readonly family: Family;
  /** Empty where the bundle has no Service there. */
  readonly services: readonly string[];
  readonly endpoint: string;
  /** TCP and SCTP: established connections. UDP: flows. */
  readonly count: number;
  readonly after: (typeof connectionOutcomes)[number];
}

/** Another bundle, whose own differences from the node are left out: a review of a change looks at what the change makes different. */
interface ParityBase {
  /** Of the node's part of that bundle, 16 hex digits. */
  readonly version: string;
  /** Differences that both bundles have, and which are not here. */
  readonly known: number;
}

/**
 * `equivalent`: no packet that was traced is treated differently, but for documented differences of modes. `different`: at least one is.
 * `incomplete`: none was found, but not all could be traced.
 */
type ParityResult = 'equivalent' | 'different' | 'incomplete';

interface ParityCoverage {
  /** Frontends of either side. */
  readonly frontends: number;
  /** Different sources, over all frontends. */
  readonly sources: number;
  /** Pairs of a frontend and a source: each was traced on both sides. */
  readonly cases: number;
  readonly notCovered: readonly NotCovered[];
}

/** Something that was not compared. */
export interface NotCovered {
  /** A rule that packets of Services can meet, a part of the observation, or a kind of packet. */
  readonly what: string;
  /** `observed.json:1204`; absent where there is no line. */
  readonly at?: string;
  readonly why: string;
  /** Cases without a result because of it; 0 for a part that no case needs. */
  readonly cases: number;
  /** Whether the result is `incomplete` because of it. */
  readonly matters: boolean;
}

/**
 * Why the two sides differ. `config`: a setting of the node or the profile. `objects`: Services or endpoints that changed between the
 * observation and the bundle. `mode`: a documented difference of modes; it does not make the result `different`. `version`: one of the
 * version of kube-proxy that the node runs, which rules do not follow. `foreign-rule`: a rule of neither. `bug`: none of these, so one side
 * is wrong.
 */
export const parityCauses = ['config', 'objects', 'mode', 'version', 'foreign-rule', 'bug'] as const;
export type ParityCause = (typeof parityCauses)[number];

export interface ParityDifference {
  /** Stable over runs, bundles and observations that show the same difference: 16 hex digits. */
  readonly id: string;
  /** `10.96.0.10:80/tcp`, `node port 30080/tcp`, `localhost 30080/tcp`. */
  readonly frontend: string;
  readonly family: Family;
  /** `shop/web`, in byte order; empty where the bundle has no Service there. */
  readonly services: readonly string[];
  readonly source: ParitySource;
  /** `dnat 10.244.1.5:8080 1/2 | 10.244.2.7:8080 1/2; affinity 10800 s`, in the words of `sluice diff`. */
  readonly observed: string;
  readonly desired: string;
  readonly cause: ParityCause;
  /** With `mode` and `version`: the code of the documented difference. */
  readonly code?: string;
  /** With `foreign-rule`: the rule as it was observed. */
  readonly rule?: string;
  readonly packet: ParityPacket;
  /** Other sources with the same difference, by class. Of later packets other ones: `tcp outside to pod-here`. */
  readonly alsoFrom: readonly string[];
  readonly advice: string;
}

interface ParitySource {
  readonly class: 'pod-here' | 'pod-elsewhere' | 'node' | 'outside' | 'endpoint';
  /** The network that a rule matches. */
  readonly network?: string;
  readonly address: string;
}

/** The first packet of a connection, or one of an established one. */
export interface ParityPacket {
  readonly from: string;
  /** Absent: the node itself sends it. */
  readonly in?: string;
  readonly to: string;
  readonly port: number;
  readonly protocol: TransportProtocol;
  /** Absent: `new`. `established`: a later packet. `invalid`: one of no connection. */
  readonly state?: 'established' | 'invalid';
}

/** The format that `sluice parity -o json` writes; a reader refuses any other. */
export const parityReportFormat = 1;
