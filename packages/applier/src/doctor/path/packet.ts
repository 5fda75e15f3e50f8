import { type Family, isInCidr, networkIn, parseAddress, type TransportProtocol } from '@sluice/netfilter';

/**
 * A packet at one hook. What is not known is left out, and a rule that asks for it matches perhaps.
 *
 * `netfilter/src/live` follows observed rules, too, for comparisons: there a packet is known entirely, only the first one of a connection is
 * sent, and a doubtful rule is taken not to match, so that a difference is never invented. A doctor asks about replies and about clients of
 * unknown interfaces, must not blame a rule behind a doubtful one, and names the handle of a rule for the command that removes it.
 */
export interface HookPacket {
  readonly family: Family;
  readonly protocol: TransportProtocol;
  readonly source: string | undefined;
  readonly destination: string;
  /** Of a request the destination port; a reply has it as source port. */
  readonly port: number;
  readonly isReply: boolean;
  /** `''`: a process of the node sends it, so that there is none. */
  readonly in: string | undefined;
  /** `''`: it is for the node itself. */
  readonly out: string | undefined;
  /** Whether a Service's rules translated it. */
  readonly isTranslated: boolean;
  readonly isMasqueraded: boolean;
  /** Whether the destination is an address of the node. */
  readonly isToNode: boolean;
}

/** Whether a rule matches a packet. */
export type Match = 'yes' | 'no' | 'perhaps';

/** All conditions of a rule together. */
export const all = (matches: Iterable<Match>): Match => {
  let result: Match = 'yes';
  for (const match of matches) {
    if (match === 'no') return 'no';
    if (match === 'perhaps') result = 'perhaps';
  }
  return result;
};

export const not = (match: Match): Match => (match === 'yes' ? 'no' : match === 'no' ? 'yes' : 'perhaps');

/** A known value compared; an unknown one matches perhaps. */
export const known = <T>(value: T | undefined, test: (value: T) => boolean): Match =>
  value === undefined ? 'perhaps' : test(value) ? 'yes' : 'no';

export const yesNo = (value: boolean): Match => (value ? 'yes' : 'no');

/**
 * Whether an end of packets is in a network, of which tools print a mask, too: `10.0.0.0/255.0.0.0`. The network is read once for all
 * packets, and an address once for all rules.
 */
export function isWithin(network: string, end: 'source' | 'destination'): (packet: HookPacket) => Match {
  const read = networkIn(network);
  return (packet) => {
    const address = addressesOf(packet)[end];
    return read && address ? yesNo(isInCidr(address, read)) : 'perhaps';
  };
}

type Addresses = Readonly<Record<'source' | 'destination', ReturnType<typeof parseAddress>>>;

function addressesOf(packet: HookPacket): Addresses {
  const before = parsed.get(packet);
  if (before) return before;
  const { source, destination } = packet;
  const both = {
    source: source === undefined ? undefined : parseAddress(source),
    destination: parseAddress(destination),
  };
  parsed.set(packet, both);
  return both;
}

const parsed = new WeakMap<HookPacket, Addresses>();

/** A foreign rule that decides about a packet, in every case or perhaps. */
export interface Meeting {
  readonly kind: 'drop' | 'translate' | 'exempt' | 'notrack';
  /** False: an earlier rule may take the packet first, or the rule may not match. */
  readonly isCertain: boolean;
  /** As a tool prints it, with the tool: `iptables-nft -t filter -A FORWARD -j DROP`. */
  readonly rule: string;
  /** A command that removes it, or makes it harmless. */
  readonly fix: string;
  /** The table of iptables that has it: `filter`. */
  readonly table?: string;
  /** How many packets it counted; left out: it has no counter, or that is read by the table. */
  readonly counted?: number;
}
