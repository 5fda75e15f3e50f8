import { cidrContains, parseAddress } from '@sluice/netfilter';
import { familyNames, type NodeState, tableOf } from '../ports/node-state.ts';

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
    known ??= addressesOf(state);
    return known.has(address);
  };
}

/** All addresses of endpoints of a state. */
function addressesOf(state: NodeState): ReadonlySet<string> {
  const found = new Set<string>();
  for (const family of familyNames) {
    for (const rules of tableOf(state, family, 'nat').chains.values())
      for (const rule of rules) {
        const endpoint = / --to-destination (\S+)/.exec(rule)?.[1];
        if (endpoint !== undefined) found.add(addressOf(endpoint));
      }
  }
  for (const { real } of state.ipvs?.virtualServers.values() ?? [])
    for (const { address } of real.values()) found.add(address);
  return found;
}

/** `10.244.1.5` of `10.244.1.5:8080`, `fd00::1` of `[fd00::1]:8080`. */
export function addressOf(endpoint: string): string {
  return endpoint.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
}
