import { createHmac } from 'node:crypto';
import { type Address, type Family, parseAddress, parseCidr, printWords } from '@sluice/netfilter';

/**
 * Ranges with a special meaning: addresses inside stay inside, and those outside stay outside. Addresses in ranges that are never
 * destinations, or that reveal nothing about a site, are kept.
 */
const special = (
  [
    ['0.0.0.0/8', 'keep'],
    ['10.0.0.0/8', 'scramble'],
    ['100.64.0.0/10', 'scramble'],
    ['127.0.0.0/8', 'keep'],
    ['169.254.0.0/16', 'keep'],
    ['172.16.0.0/12', 'scramble'],
    ['192.168.0.0/16', 'scramble'],
    ['224.0.0.0/3', 'keep'],
    ['::/127', 'keep'],
    ['64:ff9b::/96', 'scramble'],
    ['2000::/3', 'scramble'],
    ['fd00::/8', 'scramble'],
    ['fe80::/10', 'keep'],
    ['ff00::/8', 'keep'],
  ] as const
).map(([text, stays]) => {
  const cidr = parseCidr(text);
  if (cidr === undefined) throw new Error(`${text} is not a CIDR`);
  return { family: cidr.family, bits: bitsOf(cidr.words).slice(0, cidr.prefix), isFixed: stays === 'keep' };
});

/**
 * Replaces addresses and preserves prefixes: any two addresses share as many leading bits as before, so every network contains the same
 * addresses. Bits are flipped by a keyed hash of the bits before them (Xu, Fan, Ammar, Moon: Prefix-Preserving IP Address
 * Anonymization, 2002), here one hash for each byte.
 */
export class AddressReplacer {
  private readonly key: Buffer;
  private readonly flips = new Map<string, Buffer>();

  /** @param key of the hash; it allows undoing the replacement */
  constructor(key: Buffer) {
    this.key = key;
  }

  /** Replaces an address or CIDR; undefined for another text. */
  of(text: string): string | undefined {
    const address = parseAddress(text);
    if (address !== undefined) return printWords(this.words(address));
    const cidr = parseCidr(text);
    if (cidr === undefined) return undefined;
    const words = this.words(cidr);
    return parseCidr(`${printWords(words)}/${cidr.prefix}`)?.text;
  }

  private words({ family, words }: Pick<Address, 'family' | 'words'>): readonly number[] {
    const bits = bitsOf(words);
    return words.map((word, index) => {
      let changed = word;
      for (let bit = 0; bit < 16; bit++) {
        if (this.isFlipped(family, bits.slice(0, index * 16 + bit))) changed ^= 0x8000 >> bit;
      }
      return changed;
    });
  }

  private isFlipped(family: Family, before: string): boolean {
    const isBound = special.some(
      (range) =>
        range.family === family &&
        (before.length < range.bits.length
          ? range.bits.startsWith(before)
          : range.isFixed && before.startsWith(range.bits)),
    );
    return !isBound && this.flipAt(family, before) === 1;
  }

  /** The 255 decisions for one byte are the bits of one hash, numbered as the nodes of a binary tree. */
  private flipAt(family: Family, before: string): number {
    const start = before.length - (before.length % 8);
    const node = Number.parseInt(`1${before.slice(start)}`, 2);
    const name = `${family} ${before.slice(0, start)}`;
    const flips = this.flips.get(name) ?? createHmac('sha256', this.key).update(name).digest();
    this.flips.set(name, flips);
    return ((flips[node >> 3] ?? 0) >> (node & 7)) & 1;
  }
}

function bitsOf(words: readonly number[]): string {
  return words.map((word) => word.toString(2).padStart(16, '0')).join('');
}
