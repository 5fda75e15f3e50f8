import { type Cidr, type Family, printWords } from '@sluice/netfilter';

const wordCount = { ipv4: 2, ipv6: 8 } as const satisfies Record<Family, number>;

/** The first address of a network, as a number. */
export const numberOf = ({ words }: Cidr): bigint => words.reduce((sum, word) => sum * 65_536n + BigInt(word), 0n);

/** How many addresses a network has. */
export const sizeOf = ({ words, prefix }: Cidr): bigint => 1n << BigInt(words.length * 16 - prefix);

/** The address of a number. */
export function addressAt(number: bigint, family: Family): string {
  const count = wordCount[family];
  return printWords(
    Array.from({ length: count }, (_, n) => Number((number >> BigInt(16 * (count - 1 - n))) & 0xffffn)),
  );
}
