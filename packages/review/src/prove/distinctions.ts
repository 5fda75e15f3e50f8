import { clusterEndpoints } from '../bundle/endpoints.ts';
import { addressOfEndpoint, cidrContains, type Family } from '@sluice/netfilter';
import { addNode, type OwnNodes } from '../flows/own-nodes.ts';
import type { DeclaredFrontend } from './declared.ts';
import { endpointsOf } from './connection.ts';
import type { Distinctions } from '../flows/groups.ts';
import { factOf, type NodeOf } from '../bundle/node.ts';
import { provenModes } from './planes.ts';

/** The distinctions that Services declare: local endpoints, topology hints, source ranges. */
export function distinctionsOf(frontends: readonly DeclaredFrontend[], family: Family): Distinctions {
  const traits = frontends.flatMap((frontend) => traitsOf(frontend, family));
  const ranges = frontends.flatMap(({ role, declared }) => (role === 'load-balancer' ? sourcesOf(declared) : []));
  return {
    networks: [...new Set(ranges)],
    signatureOf: (node) => traits.map((trait) => trait(node)).join('\n'),
    ownNodes: ownNodesOfFrontends(frontends),
  };
}

/** The nodes whose elements masquerade hairpin traffic of endpoints. */
function ownNodesOfFrontends(frontends: readonly DeclaredFrontend[]): OwnNodes {
  const found = new Map<string, ReadonlySet<string>>();
  for (const { declared } of frontends)
    if (provenModes[declared.mode].hairpin === 'by-own-elements')
      for (const { text, node } of declared.notes.endpoints)
        if (node !== undefined) addNode(found, addressOfEndpoint(text), node);
  return found;
}

/** Source ranges, and what is distinguished beside them. */
function sourcesOf({ mode, notes }: DeclaredFrontend['declared']): readonly string[] {
  const { sourceRanges } = notes;
  return sourceRanges.length === 0 ? [] : [...sourceRanges, ...provenModes[mode].additionalSources(notes)];
}

type NodeTrait = (node: NodeOf) => string;

function traitsOf(frontend: DeclaredFrontend, family: Family): readonly NodeTrait[] {
  const { mode, notes } = frontend.declared;
  const endpoints = endpointsOf(frontend);
  const traits: NodeTrait[] = [];
  if (
    provenModes[mode].hairpin === 'on-own-node' ||
    notes.internalPolicy === 'Local' ||
    notes.externalPolicy === 'Local'
  ) {
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
  if (frontend.role === 'load-balancer' && notes.sourceRanges.length > 0) {
    traits.push((node) => {
      const own = factOf(node, family, 'address');
      return own !== undefined && notes.sourceRanges.some((range) => cidrContains(range, own)) ? 'in' : 'out';
    });
  }
  return traits;
}
