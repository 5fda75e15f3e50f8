import type { Family } from '../family.ts';
import { type Address, parseAddress, printWords } from './address.ts';

/** A network as a value. `parseCidr` makes it. */
export interface Cidr {
  readonly family: Family;
  /** The words of the network address: bits after the prefix are zero. */
  readonly words: readonly number[];
  readonly prefix: number;
  /** Canonical, such as `10.244.0.0/16`. */
  readonly text: string;
  /** The spelling had bits after the prefix (`10.244.1.0/16`), which `words` and `text` leave out. */
  readonly hostBits: boolean;
}

const prefixMax = { ipv4: 32, ipv6: 128 } as const satisfies Record<Family, number>;

/**
 * Reads `address/prefix`. Bits after the prefix are allowed, as Kubernetes and iptables allow them, and cleared.
 * @returns the network, or undefined when the address or the prefix is malformed
 */
export function parseCidr(text: string): Cidr | undefined {
  const slash = text.indexOf('/');
  const address = slash < 0 ? undefined : parseAddress(text.slice(0, slash));
  const prefix = readDecimal(text.slice(slash + 1));
  if (!address || prefix === undefined || prefix > prefixMax[address.family]) return undefined;
  const words = address.words.map((word, index) => word & maskOfWord(prefix, index));
  const hostBits = words.some((word, index) => word !== address.words[index]);
  return { family: address.family, words, prefix, text: `${printWords(words)}/${prefix}`, hostBits };
}

/** The canonical spelling of a network (`10.244.1.7/16` is `10.244.0.0/16`), or undefined when `text` is not a network. */
export function canonicalCidr(text: string): string | undefined {
  return parseCidr(text)?.text;
}

/** Whether `address` is in `cidr`; false across families. */
export function isInCidr(address: Address, cidr: Cidr): boolean {
  if (address.family !== cidr.family) return false;
  const { words, prefix } = cidr;
  // A loop, for speed: the hottest function of the tracer.
  for (let index = 0; index < words.length; index++) {
    if (((address.words[index] ?? 0) & maskOfWord(prefix, index)) !== words[index]) return false;
  }
  return true;
}

/** Reads a network, or an address as the network of it alone. */
export function networkOf(text: string): Cidr | undefined {
  if (text.includes('/')) return parseCidr(text);
  const address = parseAddress(text);
  if (!address) return undefined;
  const { family, words } = address;
  const prefix = prefixMax[family];
  return { family, words, prefix, text: `${address.text}/${prefix}`, hostBits: false };
}

/** One network after another is compared with many addresses. */
let lastRead: { readonly text: string; readonly cidr: Cidr | undefined } = { text: '', cidr: undefined };

/** `isInCidr` for texts; false when one of them cannot be read. */
export function cidrContains(cidrText: string, addressText: string): boolean {
  const cidr = lastRead.text === cidrText ? lastRead.cidr : parseCidr(cidrText);
  lastRead = { text: cidrText, cidr };
  const address = parseAddress(addressText);
  return cidr !== undefined && address !== undefined && isInCidr(address, cidr);
}

/** Ranges that endpoints must not be in, each with what its addresses are. */
const forbiddenRanges = (
  [
    ['0.0.0.0/32', 'the unspecified address'],
    ['127.0.0.0/8', 'a loopback address'],
    ['169.254.0.0/16', 'a link-local address'],
    ['224.0.0.0/4', 'a multicast address'],
    ['255.255.255.255/32', 'the broadcast address'],
    ['::/128', 'the unspecified address'],
    ['::1/128', 'a loopback address'],
    ['fe80::/10', 'a link-local address'],
    ['ff00::/8', 'a multicast address'],
  ] as const
).map(([text, kind]) => ({ cidr: parseCidr(text) as Cidr, kind }));

const lastFour = [[12, 13, 14, 15]] as const;

/**
 * Ranges of IPv6 whose addresses lead to an IPv4 address, by a tunnel of the kernel or a translator: the octets that hold it, and the
 * value that each is xored with. `::ffff:0:0/96` is not among them: `parseAddress` refuses it.
 *
 * The local range of NAT64 holds it in four ways, for prefixes of 48, 56, 64 and 96 bits (RFC 6052, 2.2).
 */
const embeddingRanges = (
  [
    ['::/96', 'IPv4-compatible', lastFour, 0],
    ['::ffff:0:0:0/96', 'SIIT', lastFour, 0],
    ['64:ff9b::/96', 'NAT64', lastFour, 0],
    ['64:ff9b:1::/48', 'NAT64', [[6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12], ...lastFour], 0],
    ['2001::/32', 'Teredo', lastFour, 0xff],
    ['2002::/16', '6to4', [[2, 3, 4, 5]], 0],
  ] as const
).map(([text, kind, places, xor]) => ({ cidr: parseCidr(text) as Cidr, kind, places, xor }));

/**
 * Why an endpoint must not have this address: a Service with a node's loopback or link-local addresses as endpoints would expose local
 * servers (CVE-2021-25737; Kubernetes' `ValidateEndpointIP`). The same holds for IPv6 addresses that lead to such IPv4 addresses.
 * @param text an address that `parseAddress` accepts
 * @returns a clause such as `it is a loopback address`, or undefined when the address may be used
 */
export function forbiddenEndpoint(text: string): string | undefined {
  const address = parseAddress(text);
  return address && forbiddenAddress(address);
}

/** `forbiddenEndpoint` for a parsed address. */
export function forbiddenAddress(address: Address): string | undefined {
  const kind = forbiddenKind(address);
  if (kind !== undefined) return `it is ${kind}`;
  for (const { embedded, by } of embeddedAddresses(address)) {
    const inner = forbiddenKind(embedded);
    if (inner !== undefined) return `it leads to ${embedded.text} (${by}), ${inner}`;
  }
  return undefined;
}

const forbiddenKind = (address: Address): string | undefined =>
  forbiddenRanges.find((range) => isInCidr(address, range.cidr))?.kind;

/** An IPv4 address to which packets to an IPv6 address may be sent, and by what: `NAT64`. */
interface EmbeddedAddress {
  readonly embedded: Address;
  readonly by: string;
}

/** `embeddedAddresses` of a text; none of what is no address. */
export function embeddedIn(text: string): readonly EmbeddedAddress[] {
  const address = text.includes(':') ? parseAddress(text) : undefined;
  return address ? embeddedAddresses(address) : [];
}

/** An address, and those to which translators may send packets to it. */
export const withEmbedded = (text: string): readonly string[] => [
  text,
  ...embeddedIn(text).map(({ embedded }) => embedded.text),
];

/** The text of an address up to its last number, `10.244.1.`: that of few neighbours, which answers cheaply what is no address of many. */
export const neighbourhoodOf = (address: string): string =>
  address.slice(0, Math.max(address.lastIndexOf('.'), address.lastIndexOf(':')) + 1);

/** The IPv4 addresses that packets to an IPv6 address may be sent to; of several readings those that end the address, and are not zero. */
function embeddedAddresses(address: Address): readonly EmbeddedAddress[] {
  const range = embeddingRanges.find(({ cidr }) => isInCidr(address, cidr));
  if (!range) return [];
  const octets = address.words.flatMap((word) => [word >> 8, word & 0xff]);
  const { places, kind: by, xor } = range;
  return places.flatMap((place) => {
    const text = place.map((index) => (octets[index] ?? 0) ^ xor).join('.');
    const isOther = places.length > 1 && (text === '0.0.0.0' || octets.slice(place[3] + 1).some((octet) => octet > 0));
    const embedded = isOther ? undefined : parseAddress(text);
    return embedded ? [{ embedded, by }] : [];
  });
}

/** The bits of word `index` that a prefix covers. */
function maskOfWord(prefix: number, index: number): number {
  const covered = Math.min(16, Math.max(0, prefix - 16 * index));
  return 0xffff & (0xffff << (16 - covered));
}

/** Up to three digits without a leading zero. */
function readDecimal(text: string): number | undefined {
  return /^(?:0|[1-9][0-9]{0,2})$/.test(text) ? Number(text) : undefined;
}
