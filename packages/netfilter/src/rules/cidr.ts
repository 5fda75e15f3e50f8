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

/** Ranges that endpoints must not be in, each with the reason. */
const forbiddenRanges = (
  [
    ['0.0.0.0/32', 'it is the unspecified address'],
    ['127.0.0.0/8', 'it is a loopback address'],
    ['169.254.0.0/16', 'it is a link-local address'],
    ['224.0.0.0/4', 'it is a multicast address'],
    ['255.255.255.255/32', 'it is the broadcast address'],
    ['::/128', 'it is the unspecified address'],
    ['::1/128', 'it is a loopback address'],
    ['fe80::/10', 'it is a link-local address'],
    ['ff00::/8', 'it is a multicast address'],
  ] as const
).map(([text, reason]) => ({ cidr: parseCidr(text) as Cidr, reason }));

/**
 * Why an endpoint must not have this address: a Service with a node's loopback or link-local addresses as endpoints would expose local
 * servers (CVE-2021-25737; Kubernetes' `ValidateEndpointIP`).
 * @param text an address that `parseAddress` accepts
 * @returns a clause such as `it is a loopback address`, or undefined when the address may be used
 */
export function forbiddenEndpoint(text: string): string | undefined {
  const address = parseAddress(text);
  return address && forbiddenAddress(address);
}

/** `forbiddenEndpoint` for a parsed address. */
export function forbiddenAddress(address: Address): string | undefined {
  return forbiddenRanges.find((range) => isInCidr(address, range.cidr))?.reason;
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
