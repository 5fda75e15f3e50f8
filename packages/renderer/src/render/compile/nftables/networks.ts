import { disjoint, networkText, parseCidr } from '@sluice/netfilter';

/** Networks as elements of a set, sorted: none of them inside another one, a network of one address as that address. */
export function networkElements(cidrs: readonly string[]): readonly string[] {
  return disjoint(cidrs.map(elementOf));
}

function elementOf(text: string): string {
  const cidr = parseCidr(text);
  return cidr ? networkText(cidr) : text;
}
