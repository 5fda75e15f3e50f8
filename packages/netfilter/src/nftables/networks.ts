import { compareText } from '../problem.ts';
import { parseAddress } from '../rules/address.ts';
import { type Cidr, cidrContains, parseCidr } from '../rules/cidr.ts';

/** A network as the kernel prints it: one of a single address is that address. */
export function networkText({ family, prefix, text }: Cidr): string {
  return prefix === (family === 'ipv4' ? 32 : 128) ? text.slice(0, text.indexOf('/')) : text;
}

/** `192.0.2.11/32` of `192.0.2.11`: the reverse of `networkText`. */
export function withPrefix(network: string): string {
  return network.includes('/') ? network : `${network}/${network.includes(':') ? 128 : 32}`;
}

/**
 * Networks without those that lie in another one, each once, in byte order: a set of intervals takes no two that overlap, and two networks
 * overlap only if one lies in the other.
 * @param networks addresses and networks, canonical
 */
export function disjoint(networks: readonly string[]): readonly string[] {
  const all = [...new Set(networks)].toSorted(compareText);
  if (all.length < 2) return all;
  return all.filter((one) => !all.some((other) => other !== one && contains(other, one)));
}

/** Whether a network has all addresses of another one. */
function contains(outer: string, inner: string): boolean {
  const network = parseCidr(outer);
  if (!network) return false;
  const [address, prefix] = inner.split('/') as [string, string | undefined];
  const isSmaller = prefix === undefined || Number(prefix) >= network.prefix;
  return isSmaller && parseAddress(address)?.family === network.family && cidrContains(outer, address);
}
