import { disjoint, parseCidr } from '@sluice/netfilter';

/** Networks as elements of a set, sorted: none of them inside another one, a network of one address as that address. */
export function networkElements(cidrs: readonly string[]): readonly string[] {
  return disjoint(cidrs.map(elementOf));
}

function elementOf(text: string): string {
  const cidr = parseCidr(text);
  if (!cidr) return text;
  const isAddress = cidr.prefix === (cidr.family === 'ipv4' ? 32 : 128);
  return isAddress ? cidr.text.slice(0, cidr.text.indexOf('/')) : cidr.text;
}
