import { planeOf } from '@sluice/netfilter';
import type { NodeFacts } from '../../ports/node-facts.ts';
import { familyNames, type NodeState } from '../../ports/node-state.ts';

/** A Service address of this node's own. */
interface AddressClash {
  readonly address: string;
  readonly cluster: boolean;
}

/**
 * Service addresses that are also on an interface of this node: the node would answer for the Service, or lose its own address. Node ports
 * have no address of their own.
 */
export function addressClashes(state: NodeState, facts: Pick<NodeFacts, 'addresses'>): readonly AddressClash[] {
  const services = planeOf(state).read(state);
  const found = new Map<string, AddressClash>();
  for (const family of familyNames) {
    const own = new Set(facts.addresses[family]);
    for (const { address, kind } of services.describe(family)) {
      if (address === undefined || !own.has(address)) continue;
      found.set(address, { address, cluster: kind === 'cluster' || found.get(address)?.cluster === true });
    }
  }
  return [...found.values()];
}
