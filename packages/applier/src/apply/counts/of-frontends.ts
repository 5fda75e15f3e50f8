import { frontendMark, printNftEndpoint } from '@sluice/netfilter';
import type { EndpointCount } from '../../ports/nftables/counts.ts';
import { ownersOf } from '../partial/services.ts';
import type { ServiceNames } from '../../ports/node-state.ts';
import type { RuleCount } from './rule-counts.ts';

/**
 * What the elements of mode nftables counted, as if the frontends were chains of rules.
 * @param services of the same state; counts of frontends that are of none of them are left out
 */
export function countsOfFrontends(counts: readonly EndpointCount[], services: ServiceNames): readonly RuleCount[] {
  const owners = ownersOf(services);
  return counts.flatMap(({ frontend, endpoint, connections }) => {
    const service = owners.get(`${frontendMark}${frontend}`);
    if (service === undefined || connections === 0) return [];
    return [{ service, chain: frontend, group: frontend, endpoint: printNftEndpoint(endpoint), connections }];
  });
}
