import { cidrContains, parseAddress } from '@sluice/bundle';
import { familyNames, type NodeState, tableOf } from '../rollout/state.ts';

/**
 * Says of an address whether an endpoint may come there without a trial: it lies in the networks that the release names, or the release
 * leads there already. A release that names none does not bound its endpoints.
 *
 * Pods with an address of their node lie outside of the networks of pods; on a node that has one already they come back without a trial.
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

/** Every address that a state leads to. */
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
