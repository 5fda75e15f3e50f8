import { parseAddress } from '@sluice/netfilter';
import type { ObservedNode } from '../observed/node.ts';

/** Up to so many each one is tried with each node port. Nodes have a few: of the bridge of pods, of tunnels, of a DNS cache. */
const allMax = 8;

/**
 * The addresses of a node besides its own, at which node ports may answer, too: of many, the first of each group that is treated alike.
 * Link-local ones are left out: a packet to one names an interface as well.
 * @param treatmentAt how packets to node ports there are treated, in words that are equal for addresses that are treated alike
 */
export function otherAddresses(
  { addresses }: ObservedNode,
  own: string | undefined,
  treatmentAt: (address: string) => string,
): readonly string[] {
  const others = addresses.filter((text) => {
    const address = parseAddress(text);
    return address && text !== own && !/^(?:127\.|::1$|fe[89ab])/.test(text);
  });
  if (others.length <= allMax) return others;
  const first = new Map<string, string>();
  for (const address of others) {
    const treatment = treatmentAt(address);
    if (!first.has(treatment)) first.set(treatment, address);
  }
  return [...first.values()];
}
