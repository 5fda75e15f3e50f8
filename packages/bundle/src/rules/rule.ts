import type { Family } from '../rulefile.ts';

/**
 * The rules that a bundle may hold, as values: what kube-proxy's iptables mode writes and no more. A rule outside these types
 * cannot be expressed, so it cannot reach a kernel.
 */
export interface Rule {
  /** The chain that it is appended to. */
  readonly chain: string;
  /** A canonical CIDR, also for one address. `0.0.0.0/0` and `::/0` say nothing and are absent. */
  readonly source?: Test;
  readonly destination?: Test;
  /** The interface that the packet came in by; a name that ends in `+` stands for all with that prefix. */
  readonly in?: Test;
  readonly out?: Test;
  readonly protocol?: TransportProtocol;
  /** In the order of the text, at most one of a kind. */
  readonly matches: readonly Match[];
  /** Absent: the rule only counts. kube-proxy ends its firewall chains with such a rule. */
  readonly target?: Target;
}

export type TransportProtocol = 'tcp' | 'udp' | 'sctp';

/** A value that a packet must have, or must not. */
export interface Test {
  readonly negated: boolean;
  readonly value: string;
}

export type Match =
  | { readonly kind: 'comment'; readonly text: string }
  | {
      readonly kind: TransportProtocol;
      readonly destinationPort?: number;
      /** From and to, both included. Only in programs of layout `tree`, never in bundles. */
      readonly destinationPorts?: readonly [number, number];
    }
  /** States in the kernel's order; SNAT and DNAT say that an address of the connection was translated. */
  | { readonly kind: 'conntrack'; readonly negated: boolean; readonly states: readonly ConntrackState[] }
  /** True when `mark & mask` is `value`. */
  | { readonly kind: 'mark'; readonly negated: boolean; readonly value: number; readonly mask: number }
  /** True when the address of that side belongs to the node itself. */
  | { readonly kind: 'addrtype'; readonly side: 'source' | 'destination'; readonly negated?: true }
  | RecentMatch
  /** True when the set has an entry made of the packet's parts on these sides: `dst,dst,src`. */
  | { readonly kind: 'set'; readonly name: string; readonly sides: readonly ('src' | 'dst')[] }
  /**
   * True when the packet goes to the address that it comes from: a pod that reached itself by a Service. Only in programs of layout
   * `tree`, never in bundles.
   */
  | { readonly kind: 'reflexive'; readonly family: Family }
  /** True when no bridge port took the packet in. */
  | { readonly kind: 'physdev' }
  /** True when a virtual server with this address handed the packet on. */
  | { readonly kind: 'ipvs'; readonly address: string; readonly protocol: TransportProtocol; readonly port: number }
  /** True with a probability of `chance` in 2^31: the kernel's own unit. */
  | { readonly kind: 'statistic'; readonly chance: number };

/** A list of client addresses in the kernel: session affinity asks it (`rcheck`) and fills it (`set`). */
export interface RecentMatch {
  readonly kind: 'recent';
  readonly action: 'rcheck' | 'set';
  readonly name: string;
  /** With `rcheck`: how old an entry may be. */
  readonly seconds?: number;
  /** Removes entries that are older than `seconds`. */
  readonly reap: boolean;
}

export type Target =
  | { readonly kind: 'jump'; readonly chain: string }
  | { readonly kind: 'goto'; readonly chain: string }
  | { readonly kind: 'accept' }
  | { readonly kind: 'drop' }
  | { readonly kind: 'return' }
  /** Absent `with`: port unreachable, the default of both families. */
  | { readonly kind: 'reject'; readonly with?: RejectReason }
  /** The packet's mark becomes `(mark & ~mask) ^ value`. */
  | { readonly kind: 'mark'; readonly value: number; readonly mask: number }
  | { readonly kind: 'masquerade'; readonly randomFully: boolean }
  | { readonly kind: 'dnat'; readonly address: string; readonly port: number };

/** In the order in which iptables-save prints them (`libxt_conntrack`, `matchinfo_print_state`). */
export const conntrackStates = ['INVALID', 'NEW', 'RELATED', 'ESTABLISHED', 'UNTRACKED', 'SNAT', 'DNAT'] as const;
export type ConntrackState = (typeof conntrackStates)[number];

/** The ways to reject other than the default, each with the one family that knows it. */
export const rejectReasons = {
  'icmp-admin-prohibited': 'ipv4',
  'icmp6-adm-prohibited': 'ipv6',
  'tcp-reset': undefined,
} as const;
export type RejectReason = keyof typeof rejectReasons;

/** `chance` of a rule that always matches. */
export const certain = 0x80000000;

/** Why a text is no rule. */
export interface RuleError {
  /** A clause such as `option -M is not in the grammar`. */
  readonly error: string;
}

/** Whether reading failed. */
export function isRuleError(read: Rule | RuleError): read is RuleError {
  return 'error' in read;
}

/** `10.244.1.5:8080`, or `[fd00::5]:8080`. */
export function printEndpoint(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
