import { type Cidr, networkOf, networkText, parseAddress, parseCidr, printWords } from '@sluice/netfilter';

/** Networks as numbers: the first address, and the number of addresses. */

const numberOf = (words: readonly number[]): bigint => words.reduce((sum, word) => sum * 65_536n + BigInt(word), 0n);

/** The address of a number. @param count of words: 2 for IPv4, 8 for IPv6 */
const addressAt = (number: bigint, count: number): string =>
  printWords(Array.from({ length: count }, (_, n) => Number((number >> BigInt(16 * (count - 1 - n))) & 0xffffn)));

/** The address behind another one. */
export function bumped(address: string): string {
  const { words } = parseAddress(address)!;
  return addressAt(numberOf(words) + 1n, words.length);
}

const read = (network: string): Cidr => networkOf(network)!;
const bitsOf = ({ words }: Cidr): number => 16 * words.length;
const printed = (text: string): string => networkText(parseCidr(text)!);

/** A network, or an address, with other bits. @param by added to the length of its prefix; `undefined` where it has no such length */
export function resized(network: string, by: number): string | undefined {
  const cidr = read(network);
  const prefix = cidr.prefix + by;
  if (prefix < 1 || prefix > bitsOf(cidr)) return undefined;
  return printed(`${printWords(cidr.words)}/${prefix}`);
}

/** The network behind another one of the same size. */
export function next(network: string): string | undefined {
  const cidr = read(network);
  const end = endOf(cidr);
  return end >> BigInt(bitsOf(cidr)) === 0n
    ? printed(`${addressAt(end, cidr.words.length)}/${cidr.prefix}`)
    : undefined;
}

const endOf = (cidr: Cidr): bigint => numberOf(cidr.words) + (1n << BigInt(bitsOf(cidr) - cidr.prefix));

/**
 * The first address of each network and the first behind it. Addresses between two of these are in the same networks, so that these
 * addresses represent all.
 */
export function boundaries(networks: Iterable<string>): readonly string[] {
  const found = [...networks].flatMap((network) => {
    const cidr = read(network);
    const count = cidr.words.length;
    const end = endOf(cidr);
    return [numberOf(cidr.words), ...(end >> BigInt(bitsOf(cidr)) === 0n ? [end] : [])].map((at) =>
      addressAt(at, count),
    );
  });
  return [...new Set(found)];
}
