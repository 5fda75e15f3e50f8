import type { Address } from '../rules/address.ts';
import type { VirtualServer } from '../virtual/values.ts';
import type { RuleHit } from './packet.ts';

/**
 * A packet on one of its possible paths. No field is optional: flows are copied at each rule, and copies of one shape are several
 * times faster.
 */
export interface TraceFlow {
  readonly source: Address;
  readonly destination: Address;
  readonly port: number;
  /** Destination and port as they are printed, where the text is at hand; of another destination it says nothing. */
  readonly printed: PrintedEndpoint | undefined;
  /** 32 bits, unsigned. */
  readonly mark: number;
  /** Bits of the mark that are not known, as a rule restored them from that of an established connection. */
  readonly unknownMark: number;
  /** The mark of its connection, as far as rules set it for this packet: that of a new connection is 0. */
  readonly connectionMark: number;
  /** `meta priority`, in which observed rules of mode nftables keep the endpoint of a client: a class as nft prints it, `none` for 0. */
  readonly priority: string;
  /** What session affinity in such rules has for the client: the map and the class, `aff4 3f2a:91c0`; `''`: nothing. */
  readonly remembered: string;
  readonly translated: boolean;
  /** A rule left it without connection tracking: it meets no chain of nat, and its state is UNTRACKED. */
  readonly untracked: boolean;
  readonly masquerade: boolean;
  /** The virtual server that translated it. */
  readonly by: Pick<VirtualServer, 'address' | 'protocol' | 'port'> | undefined;
  /** The verdict in the current built-in chain; undefined: none yet. */
  readonly verdict: 'accept' | 'reject' | 'drop' | undefined;
  /** Whether a filter rule accepted it. */
  readonly accepted: boolean;
  readonly probability: number;
  readonly trail: Trail | undefined;
}

/** What a packet has that met no rule yet. */
export const untouched: Omit<TraceFlow, 'source' | 'destination' | 'port'> = {
  printed: undefined,
  mark: 0,
  unknownMark: 0,
  connectionMark: 0,
  priority: 'none',
  remembered: '',
  translated: false,
  untracked: false,
  masquerade: false,
  by: undefined,
  verdict: undefined,
  accepted: false,
  probability: 1,
  trail: undefined,
};

/** An endpoint with its text: `10.244.1.5:8080`. */
export interface PrintedEndpoint {
  readonly destination: Address;
  readonly port: number;
  readonly text: string;
}

/** The rules that matched, the last one first: flows share the trail up to the point where they split. */
export interface Trail {
  readonly hit: RuleHit;
  readonly before: Trail | undefined;
}

/** The rules of a trail in the order in which they matched. */
export function pathOf(trail: Trail | undefined): readonly RuleHit[] {
  const path: RuleHit[] = [];
  for (let at = trail; at; at = at.before) path.push(at.hit);
  return path.toReversed();
}

export type HookName = 'PREROUTING' | 'INPUT' | 'FORWARD' | 'OUTPUT' | 'POSTROUTING';
