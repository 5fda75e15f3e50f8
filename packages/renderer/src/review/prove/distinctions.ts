import { addressOfEndpoint, cidrContains, type Family } from '@sluice/netfilter';
import { addTo, type OwnNodes } from '../flows/own-nodes.ts';
import type { Claim } from './declared.ts';
import { clusterEndpoints, endpointsOf } from './connection.ts';
import type { Distinctions } from '../flows/groups.ts';
import { factOf, type NodeOf } from '../bundle/node.ts';

/** The distinctions that Services declare: local endpoints, topology hints, source ranges. */
export function distinctionsOf(claims: readonly Claim[], family: Family): Distinctions {
  const traits = claims.flatMap((claim) => traitsOf(claim, family));
  const ranges = claims.flatMap(({ role, declared }) => (role === 'load-balancer' ? sourcesOf(declared) : []));
  return {
    networks: [...new Set(ranges)],
    signatureOf: (node) => traits.map((trait) => trait(node)).join('\n'),
    ownNodes: ownNodesOfClaims(claims),
  };
}

/** In mode nftables only an endpoint's own node masquerades its hairpin traffic. */
function ownNodesOfClaims(claims: readonly Claim[]): OwnNodes {
  const found = new Map<string, Set<string>>();
  for (const { declared } of claims)
    if (declared.mode === 'nftables')
      for (const { text, node } of declared.notes.endpoints)
        if (node !== undefined) addTo(found, addressOfEndpoint(text), node);
  return found;
}

/** Source ranges; in mode nftables also the address from which a node inside of them connects. */
function sourcesOf({ mode, notes }: Claim['declared']): readonly string[] {
  const { sourceRanges, loadBalancerAddresses } = notes;
  if (mode !== 'nftables' || sourceRanges.length === 0) return sourceRanges;
  return [...sourceRanges, ...loadBalancerAddresses];
}

type NodeTrait = (node: NodeOf) => string;

function traitsOf(claim: Claim, family: Family): readonly NodeTrait[] {
  const { mode, notes } = claim.declared;
  const endpoints = endpointsOf(claim);
  const traits: NodeTrait[] = [];
  // In mode ipvs only an endpoint's own node has a rule for its hairpin traffic.
  if (mode === 'ipvs' || notes.internalPolicy === 'Local' || notes.externalPolicy === 'Local') {
    const holders = new Set(endpoints.map((endpoint) => endpoint.node));
    traits.push(({ name }) => (holders.has(name) ? name : ''));
  }
  if (endpoints.some(({ hintZones, hintNodes }) => hintZones.length + hintNodes.length > 0)) {
    traits.push((node) =>
      clusterEndpoints(endpoints, node)
        .map(({ text }) => text)
        .join(' '),
    );
  }
  if (claim.role === 'load-balancer' && notes.sourceRanges.length > 0) {
    traits.push((node) => {
      const own = factOf(node, family, 'address');
      return own !== undefined && notes.sourceRanges.some((range) => cidrContains(range, own)) ? 'in' : 'out';
    });
  }
  return traits;
}
