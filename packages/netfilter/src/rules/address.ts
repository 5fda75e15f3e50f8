import { addAll } from '../add-all.ts';
import type { Family } from '../family.ts';

/** An IP address as a value. `parseAddress` makes it. */
export interface Address {
  readonly family: Family;
  /** 16 bits each, the most significant first: 2 words for IPv4, 8 for IPv6. */
  readonly words: readonly number[];
  /** The canonical spelling: dotted decimal, or RFC 5952. */
  readonly text: string;
}

/**
 * Reads an address in any unambiguous spelling.
 * @param text `10.0.0.1` or `fd00::1`. Refused: leading zeros (octal to some), short forms (`10.1`), zones (`fe80::1%eth0`),
 * brackets, prefixes, and IPv4-mapped IPv6 (`::ffff:10.0.0.1`), which Go and the kernel take for different families
 * @returns the address, or undefined
 */
export function parseAddress(text: string): Address | undefined {
  if (!text.includes(':')) {
    const words = readIPv4(text);
    return words && { family: 'ipv4', words, text };
  }
  const words = readIPv6(text);
  if (!words || isMapped(words)) return undefined;
  return { family: 'ipv6', words, text: printIPv6(words) };
}

/** The canonical spelling of an address, or undefined when `text` is not an address. */
export function canonicalAddress(text: string): string | undefined {
  return parseAddress(text)?.text;
}

/** An address, and maybe one of its ports. */
export interface AddressAndPort {
  readonly address: string;
  readonly port: number | undefined;
}

/**
 * Reads an address with or without a port, each in its one canonical spelling.
 * @param text `203.0.113.9`, `203.0.113.9:80`, `2001:db8::9` or `[2001:db8::9]:80`
 * @returns undefined for any other text
 */
export function parseAddressAndPort(text: string): AddressAndPort | undefined {
  const form = /^(?:([0-9.]{7,15})|\[([0-9a-f:]{2,39})\](?=:)|([0-9a-f:]{2,39}$))(?::([1-9]\d{0,4}))?$/;
  const [, ipv4, bracketed, plain, digits] = form.exec(text) ?? [];
  const address = ipv4 ?? bracketed ?? plain;
  const port = digits === undefined ? undefined : Number(digits);
  if (address === undefined || canonicalAddress(address) !== address || (port ?? 1) > 65_535) return undefined;
  return { address, port };
}

/** The family of an address, or undefined when `text` is not an address. */
export function familyOfAddress(text: string): Family | undefined {
  return parseAddress(text)?.family;
}

/** Four numbers up to 255 without leading zeros. A loop, for speed: reviews of large bundles read millions of addresses. */
function readIPv4(text: string): readonly number[] | undefined {
  let address = 0;
  let dots = 0;
  let octet = -1;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === dot) {
      if (octet < 0 || ++dots > 3) return undefined;
      address = address * 256 + octet;
      octet = -1;
    } else {
      const digit = code - zero;
      if (digit < 0 || digit > 9 || octet === 0) return undefined;
      octet = octet < 0 ? digit : octet * 10 + digit;
      if (octet > 255) return undefined;
    }
  }
  if (octet < 0 || dots !== 3) return undefined;
  address = address * 256 + octet;
  return [address >>> 16, address & 0xffff];
}

const [dot, zero] = [0x2e, 0x30];

const zeros = [0, 0, 0, 0, 0, 0, 0, 0];

/** RFC 4291, section 2.2: eight groups, one `::` for one or more groups of zeros, optionally an IPv4 address at the end. */
function readIPv6(text: string): readonly number[] | undefined {
  const gap = text.indexOf('::');
  if (gap < 0) {
    const words = readGroups(text, true);
    return words?.length === 8 ? words : undefined;
  }
  const head = readGroups(text.slice(0, gap), false);
  const tail = readGroups(text.slice(gap + 2), true);
  if (!head || !tail || head.length + tail.length > 7) return undefined;
  return [...head, ...zeros.slice(head.length + tail.length), ...tail];
}

const groupForm = /^[0-9A-Fa-f]{1,4}$/;

/** Groups between colons; the last may be an IPv4 address only at the end of the whole text. */
function readGroups(text: string, atEnd: boolean): readonly number[] | undefined {
  if (text === '') return [];
  const words: number[] = [];
  const groups = text.split(':');
  for (const [index, group] of groups.entries()) {
    if (groupForm.test(group)) {
      words.push(Number.parseInt(group, 16));
      continue;
    }
    const embedded = atEnd && index === groups.length - 1 ? readIPv4(group) : undefined;
    if (!embedded) return undefined;
    addAll(words, embedded);
  }
  return words;
}

function isMapped(words: readonly number[]): boolean {
  return words[5] === 0xffff && words.slice(0, 5).every((word) => word === 0);
}

/** The canonical text of 2 or 8 words of 16 bits. */
export function printWords(words: readonly number[]): string {
  if (words.length === 8) return printIPv6(words);
  return words.map((word) => `${word >> 8}.${word & 0xff}`).join('.');
}

/** RFC 5952: lower case, no leading zeros, `::` for the first of the longest runs of two or more zero groups. */
function printIPv6(words: readonly number[]): string {
  let start = 0;
  let length = 1;
  for (let from = 0; from < 8; from++) {
    let to = from;
    while (to < 8 && words[to] === 0) to++;
    if (to - from > length) [start, length] = [from, to - from];
  }
  const groups = words.map((word) => word.toString(16));
  if (length < 2) return groups.join(':');
  return `${groups.slice(0, start).join(':')}::${groups.slice(start + length).join(':')}`;
}

/** Whether an address is in `127.0.0.0/8`, or `::1`. Without parsing a text: the tracer asks it for every flow. */
export const isLoopback = ({ family, words, text }: Address): boolean =>
  family === 'ipv4' ? (words[0] ?? 0) >> 8 === 127 : text === '::1';
