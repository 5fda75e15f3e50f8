import type { Family } from '../family.ts';
import type { HookName, TraceFlow } from '../packet/flow.ts';
import type { RuleHit } from '../packet/packet.ts';
import type { TransportProtocol } from '../rules/rule.ts';
import type { Address } from '../rules/address.ts';

/**
 * Rules as a kernel holds them, of any program: of both stores of iptables, and of tables of nftables. Unlike `rules`, which has only
 * what may reach a kernel, a rule here may be one that is not understood. Then a packet that can meet it has no certain outcome.
 */
export interface LiveRule {
  /** As it was observed. */
  readonly text: string;
  readonly hit: RuleHit;
  /** `tcp 10.96.0.10 80`, where it matches packets to no other place. */
  readonly key: string | undefined;
  readonly tests: readonly LiveTest[];
  /** Tests of where a packet comes from, which divide sources. */
  readonly sources: readonly SourceTest[];
  readonly effect: Effect;
  /** Why a part of it is not understood, as a clause. */
  readonly unread: string | undefined;
  /** Of judging it for a packet, in rules without sets: sets with networks are searched element by element. */
  readonly cost: number;
  /** How the kernel names it; undefined for rules of iptables, whose text does. */
  readonly listed: ListedRule | undefined;
  /** Whether it is kube-proxy's or Sluice's. */
  readonly isProxys: boolean;
}

/** A rule of nftables, as `nft -a` lists it. */
export interface ListedRule {
  readonly chain: string;
  /** Undefined where a listing has none. */
  readonly handle: number | undefined;
  /** Packets that its counter has; undefined: it has none. */
  readonly counted: number | undefined;
}

/** A set of ipset as it was observed, or as it is in a state. */
export interface LiveSet {
  /** `hash:ip,port` */
  readonly type: string;
  readonly entries: ReadonlySet<string>;
  /** Why entries alone do not say what it matches: a netmask, or an entry that is excepted. */
  readonly unread?: string | undefined;
}

/** The share of packets that a test admits: 0, 1, or between for chance; undefined: not known. */
export type LiveTest = (flow: TraceFlow, hook: LiveHook) => number | undefined;

export interface SourceTest {
  readonly test: LiveTest;
  readonly networks: (flow: TraceFlow, hook: LiveHook) => readonly string[];
  readonly interfaces: readonly string[];
}

/** What follows when a rule matches. */
export type Effect =
  | { readonly kind: 'none' | 'return' }
  | { readonly kind: 'accept' | 'drop' | 'masquerade' }
  | { readonly kind: 'reject'; readonly with?: string | undefined }
  /** `-j CT --notrack`, `notrack`: of use only before connection tracking sees the packet. */
  | { readonly kind: 'untrack' }
  | { readonly kind: 'jump' | 'goto'; readonly chain: string }
  /** The mark becomes `(mark & ~mask) ^ value`. */
  | { readonly kind: 'mark'; readonly value: number; readonly mask: number }
  /** The mark of the connection becomes `(mark & ~mask) ^ value`, of which the packet's own one is no part. */
  | { readonly kind: 'connection-mark'; readonly value: number; readonly mask: number }
  /** `CONNMARK --save-mark`: the bits `to` of the connection's mark become the bits `from` of the packet's. */
  | { readonly kind: 'save-mark'; readonly from: number; readonly to: number }
  /** `CONNMARK --restore-mark`: the other way round. */
  | { readonly kind: 'restore-mark'; readonly from: number; readonly to: number }
  /** `meta priority` becomes a class. */
  | { readonly kind: 'priority'; readonly value: string }
  /** Session affinity of mode nftables: `meta priority` becomes the class that a map has for the client, or the rule does not match. */
  | { readonly kind: 'recall'; readonly map: string }
  /** The map has `meta priority` for the client from now on, for some seconds. */
  | { readonly kind: 'remember'; readonly map: string; readonly family: Family; readonly seconds: number }
  | { readonly kind: 'forget'; readonly map: string }
  /** Without an address: that of the node. Without a port: that of the packet. */
  | { readonly kind: 'dnat'; readonly address: Address | undefined; readonly port: number | undefined }
  /** One of several, by the packet or by chance; the rest of the shares matches nothing. */
  | { readonly kind: 'choose'; readonly of: (flow: TraceFlow, hook: LiveHook) => readonly Chosen[] | undefined }
  /** Several statements of one rule; only the last may be a verdict. */
  | { readonly kind: 'sequence'; readonly effects: readonly Effect[] }
  | UnreadEffect;

/** What follows is not known. */
export interface UnreadEffect {
  readonly kind: 'unread';
  /** As in `LiveRule.unread`, unless a test is not understood either. */
  readonly because: string;
  /** It translates the destination to a place that is not read, gives the packet to a proxy, or changes a mark; `else`: anything. */
  readonly does: 'translate' | 'proxy' | 'mark' | 'else';
}

export interface Chosen {
  readonly share: number;
  readonly effect: Effect;
  /** The element of the map, for the path. */
  readonly element: string;
}

/** A hook of the kernel, and the properties that all flows of a packet share. */
export interface LiveHook {
  readonly name: HookName;
  readonly type: 'filter' | 'nat';
  /** Of the base chain. */
  readonly priority: number;
  readonly family: Family;
  readonly protocol: TransportProtocol;
  /** `''`: a process of the node sends the packet; undefined: not known. */
  readonly in: string | undefined;
  /** Of what is not known of the packet; left out: everything is. */
  readonly hidden?: HiddenFromTests;
  /** The packet is an answer: its port is that of its source, and what it asks of the other end is not known. */
  readonly isReply?: boolean;
  /** The interface that a packet leaves by; undefined: not known. */
  readonly outOf: (destination: Address) => string | undefined;
  readonly remembers: string | undefined;
  readonly state: PacketState;
  readonly isLocal: (address: Address) => boolean;
  /** The destination of the connection before any translation. */
  readonly original: { readonly destination: Address; readonly port: number };
  readonly notes: RuleNotes;
  /** The sets of a program, which its rules only name; left out: rules know theirs. */
  readonly setNamed?: (name: string) => LiveSet | undefined;
}

/** Parts of a packet that are not known: a test of one has no answer. */
interface HiddenFromTests {
  readonly source: boolean;
  readonly mark: boolean;
}

export type PacketState = 'NEW' | 'ESTABLISHED' | 'RELATED' | 'INVALID';

/** What a trace meets besides its outcomes. */
export interface TraceNotes {
  /** Networks and interfaces that rules on the way ask the source for. */
  readonly networks: Set<string>;
  readonly interfaces: Set<string>;
  /** Rules that may match, as far as they are understood. */
  readonly doubts: Map<LiveRule, string>;
  /** Rules that left the packet without connection tracking. */
  readonly untracking: Set<LiveRule>;
  /** Doubtful rules that are taken to match. */
  readonly assumed: ReadonlySet<LiveRule>;
  /** How often a packet met a rule. */
  readonly met: { rules: number };
}

/** What rules write into notes. */
export interface RuleNotes {
  /** Left out: who asks does not want to know. */
  readonly networks?: Set<string>;
  readonly interfaces?: Set<string>;
  readonly doubts: { readonly set: (rule: LiveRule, why: string) => void };
  readonly untracking: { readonly add: (rule: LiveRule) => void };
  readonly assumed: ReadonlySet<LiveRule>;
  readonly met: { rules: number };
}

/** Notes for one trace, which fills them. @param assumed doubtful rules that are taken to match */
export const traceNotes = (assumed: Iterable<LiveRule> = []): TraceNotes => ({
  networks: new Set(),
  interfaces: new Set(),
  doubts: new Map(),
  untracking: new Set(),
  assumed: new Set(assumed),
  met: { rules: 0 },
});

/** A chain, whose rules are read when a packet first meets it. */
export interface LiveChain {
  readonly name: string;
  readonly rules: () => readonly LiveRule[];
  /** It has further rules, which were not read. */
  readonly isCut?: boolean;
}

export interface BaseChain {
  readonly hook: HookName;
  /** As the kernel orders them: raw -300, mangle -150, nat before routing -100, filter 0, nat after routing 100. */
  readonly priority: number;
  readonly type: 'filter' | 'nat';
  readonly chain: string;
  readonly policy: 'accept' | 'drop';
}

export interface LiveTable {
  /** `iptables-nft -t nat`, `nft ip kube-proxy`. */
  readonly title: string;
  readonly chains: ReadonlyMap<string, LiveChain>;
  readonly bases: readonly BaseChain[];
  readonly policyHit: (base: BaseChain) => RuleHit;
}
