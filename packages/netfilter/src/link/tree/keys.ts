import { printWords } from '../../rules/address.ts';
import { parseCidr } from '../../rules/cidr.ts';
import type { Rule, TransportProtocol } from '../../rules/rule.ts';

/**
 * The position of a rule in a dispatch chain: under one address, protocol and port; under a protocol and port of the node's own
 * addresses, or of any address; or in the tail, tested one by one.
 */
export type DispatchPlace =
  | { readonly kind: 'address' | 'local' | 'port'; readonly key: string }
  | { readonly kind: 'rest' };

/** The first bits distinguish the protocols: TCP from the others, then UDP from SCTP. */
const bitsOf = { tcp: 0x0000, udp: 0x8000, sctp: 0xc000 } as const satisfies Record<TransportProtocol, number>;

/** Returns a rule's position; its key is the address in 16-bit characters, the protocol, the port. */
export function placeOf(rule: Rule): DispatchPlace {
  const port = portOf(rule);
  if (rule.protocol === undefined || port === undefined) return { kind: 'rest' };
  const service = String.fromCharCode(bitsOf[rule.protocol], port);
  if (rule.destination === undefined) {
    const isLocal = rule.matches.some(
      (match) => match.kind === 'addrtype' && match.side === 'destination' && !match.negated,
    );
    return { kind: isLocal ? 'local' : 'port', key: service };
  }
  const cidr = rule.destination.negated ? undefined : parseCidr(rule.destination.value);
  if (cidr?.prefix !== (cidr?.words.length ?? 0) * 16) return { kind: 'rest' };
  return { kind: 'address', key: String.fromCharCode(...(cidr?.words ?? [])) + service };
}

/** The protocol and port of a key, which is the key of rules without an address. */
export function serviceOf(key: string): string {
  return key.slice(-2);
}

function portOf(rule: Rule): number | undefined {
  for (const match of rule.matches) if ('destinationPort' in match) return match.destinationPort;
  return undefined;
}

/** Whether iptables can match a prefix of a key: not one that ends within the protocol. */
export function canMatchPrefix(key: string): (length: number) => boolean {
  const address = (key.length - 2) * 16;
  return (length) => length <= address || length >= address + 16;
}

/**
 * The matches for packets below a prefix, as iptables-save prints them: `-d 10.96.0.0/16 `, `-d … -p tcp `,
 * `-d … -p tcp -m tcp --dport 8080:8095 `. Each part ends with a space.
 */
export function conditionOf(key: string, length: number): string {
  const address = (key.length - 2) * 16;
  const parts: string[] = [];
  const prefix = Math.min(length, address);
  if (prefix > 0) parts.push(`-d ${printWords(wordsOf(key.slice(0, -2), prefix))}/${prefix} `);
  if (length < address + 16) return parts.join('');
  const protocol = protocolOf(key.charCodeAt(key.length - 2));
  parts.push(`-p ${protocol} `);
  if (length > address + 16) parts.push(`-m ${protocol} --dport ${portRange(key, length - address - 16)} `);
  return parts.join('');
}

function protocolOf(bits: number): TransportProtocol {
  return bits === bitsOf.tcp ? 'tcp' : bits === bitsOf.udp ? 'udp' : 'sctp';
}

function portRange(key: string, bits: number): string {
  const mask = 0xffff & (0xffff << (16 - bits));
  const first = key.charCodeAt(key.length - 1) & mask;
  const last = first | (~mask & 0xffff);
  return first === last ? `${first}` : `${first}:${last}`;
}

function wordsOf(text: string, length: number): number[] {
  const words: number[] = [];
  // By index: an iterator takes two characters that form a surrogate pair as one.
  for (let index = 0; index < text.length; index++) {
    const covered = Math.min(16, Math.max(0, length - 16 * index));
    words.push(text.charCodeAt(index) & (0xffff << (16 - covered)) & 0xffff);
  }
  return words;
}
