import type { Family } from '../family.ts';

/**
 * The rules of a bundle as values: only the forms that kube-proxy writes. A rule outside these types cannot be expressed, so it cannot
 * reach a kernel.
 */
export interface Rule {
  /** The chain that it is appended to. */
  readonly chain: string;
  /** A canonical CIDR, also for one address. `0.0.0.0/0` and `::/0` match all and are absent. */
  readonly source?: Test;
  readonly destination?: Test;
  /** The incoming interface; a name that ends in `+` matches all with that prefix. */
  readonly in?: Test;
  readonly out?: Test;
  readonly protocol?: TransportProtocol;
  /** In the order of the text, at most one of a kind. */
  readonly matches: readonly Match[];
  /** Absent: the rule only counts packets. kube-proxy ends its firewall chains with such a rule. */
  readonly target?: Target;
}

export type TransportProtocol = 'tcp' | 'udp' | 'sctp';

/** A value that a packet must have, or must not have if negated. */
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
  /** States in the kernel's order; SNAT and DNAT are connections with a translated address. */
  | { readonly kind: 'conntrack'; readonly negated: boolean; readonly states: readonly ConntrackState[] }
  /** True when `mark & mask` is `value`. */
  | { readonly kind: 'mark'; readonly negated: boolean; readonly value: number; readonly mask: number }
  /** True when the address of that side belongs to the node itself. */
  | { readonly kind: 'addrtype'; readonly side: 'source' | 'destination'; readonly negated?: true }
  | RecentMatch
  /** True when the set has an entry made of the packet's parts on these sides: `dst,dst,src`. */
  | { readonly kind: 'set'; readonly name: string; readonly sides: readonly ('src' | 'dst')[] }
  /**
   * True when the packet's destination is its source: a pod that reaches itself through a Service. Only in programs of layout `tree`,
   * never in bundles.
   */
  | { readonly kind: 'reflexive'; readonly family: Family }
  /** True when the packet did not arrive through a bridge port. */
  | { readonly kind: 'physdev' }
  /** True when a virtual server with this address forwarded the packet. */
  | { readonly kind: 'ipvs'; readonly address: string; readonly protocol: TransportProtocol; readonly port: number }
  /** True with a probability of `chance` in 2^31: the kernel's own unit. */
  | { readonly kind: 'statistic'; readonly chance: number };

/** A list of client addresses in the kernel, which session affinity reads (`rcheck`) and fills (`set`). */
export interface RecentMatch {
  readonly kind: 'recent';
  readonly action: 'rcheck' | 'set';
  readonly name: string;
  /** With `rcheck`: the maximum age of an entry. */
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
  /** Without `with`: port unreachable, the default of both families. */
  | { readonly kind: 'reject'; readonly with?: RejectReason }
  /** The packet's mark becomes `(mark & ~mask) ^ value`. */
  | { readonly kind: 'mark'; readonly value: number; readonly mask: number }
  | { readonly kind: 'masquerade'; readonly randomFully: boolean }
  | { readonly kind: 'dnat'; readonly address: string; readonly port: number };

/** In the order in which iptables-save prints them (`libxt_conntrack`, `matchinfo_print_state`). */
export const conntrackStates = ['INVALID', 'NEW', 'RELATED', 'ESTABLISHED', 'UNTRACKED', 'SNAT', 'DNAT'] as const;
export type ConntrackState = (typeof conntrackStates)[number];

/** The reject reasons other than the default, each with its family. */
export const rejectReasons = {
  'icmp-admin-prohibited': 'ipv4',
  'icmp6-adm-prohibited': 'ipv6',
  'tcp-reset': undefined,
} as const;
export type RejectReason = keyof typeof rejectReasons;

/** `chance` of a rule that always matches. */
export const certain = 0x80000000;

/** Why a text is not a rule. */
export interface RuleError {
  /** A clause such as `option -M is not in the grammar`. */
  readonly error: string;
}

export function isRuleError(read: Rule | RuleError): read is RuleError {
  return 'error' in read;
}

/** `10.244.1.5:8080`, or `[fd00::5]:8080`. */
export function printEndpoint(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
