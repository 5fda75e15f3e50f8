import { cidrContains, parseAddress, planeOf } from '@sluice/netfilter';
import type { NodeState } from '../ports/node-state.ts';

/**
 * Tells addresses that an endpoint update may use: those in the networks that the release names, and those that the release has already.
 * A release that names no networks does not bound its endpoints.
 *
 * Pods in the host network lie outside of the networks of pods; where the release has one at an address, it may return there.
 */
export function approvedBy(state: NodeState): (address: string) => boolean {
  const ranges = state.endpointRanges ?? [];
  let known: ReadonlySet<string> | undefined;
  return (address) => {
    if (ranges.length === 0) return true;
    if (parseAddress(address) && ranges.some((cidr) => cidrContains(cidr, address))) return true;
    known ??= planeOf(state).read(state).addresses();
    return known.has(address);
  };
}
