import { type Cidr, compareText, isInCidr, parseAddress, parseCidr, printWords } from '@sluice/netfilter';

/**
 * Networks as elements of a set, sorted: single addresses without a prefix, none of them inside another one, because the kernel takes no
 * overlapping intervals.
 * @param texts CIDRs of one family
 */
export function networkElements(texts: readonly string[]): readonly string[] {
  const networks = new Map(texts.flatMap((text) => entryOf(parseCidr(text))));
  const all = [...networks.values()];
  const isInside = (network: Cidr): boolean =>
    all.some((other) => other.prefix < network.prefix && contains(other, network));
  return all
    .filter((network) => !isInside(network))
    .map(elementOf)
    .toSorted(compareText);
}

function entryOf(network: Cidr | undefined): (readonly [string, Cidr])[] {
  return network ? [[network.text, network]] : [];
}

function contains(wide: Cidr, narrow: Cidr): boolean {
  const start = parseAddress(printWords(narrow.words));
  return start !== undefined && isInCidr(start, wide);
}

function elementOf({ text, family, prefix }: Cidr): string {
  const isAddress = prefix === (family === 'ipv4' ? 32 : 128);
  return isAddress ? text.slice(0, text.indexOf('/')) : text;
}
