import { addressOfEndpoint } from '@sluice/netfilter';
import type { HeaderNote } from '../bundle/header.ts';
import {
  choice,
  clusterEndpoints,
  type DeclaredConnection,
  endpointsOf,
  type ExpectedOutcome,
  isAllowed,
  isLocalPod,
  isOpen,
  knowsPods,
  localEndpoints,
  usable,
} from './connection.ts';

/**
 * The outcome that a Service's declaration demands of a node of mode nftables: kube-proxy's `syncProxyRules` in `pkg/proxy/nftables`.
 * Node ports are closed on loopback, and at addresses that the profile does not choose nothing matches them.
 */
export function expectedNft(connection: DeclaredConnection): ExpectedOutcome {
  const { claim, node, family, source, trafficPolicy } = connection;
  const { role, destination, declared } = claim;
  const { notes } = declared;
  if (role === 'node-port' && !isOpen(node, family, destination, trafficPolicy)) return { kind: 'pass' };
  // Before translation, so that they count where nothing serves the address, too.
  if (role === 'load-balancer' && !isAllowed(notes, node, family, source)) return { kind: 'drop' };
  const endpoints = endpointsOf(claim);
  if (usable(endpoints).length === 0) return { kind: 'reject' };
  const policy = role === 'cluster' ? notes.internalPolicy : notes.externalPolicy;
  const isKnown = knowsPods(connection);
  const isPod = isKnown && isLocalPod(connection);
  const isOutside = !isPod && source.class !== 'node';
  const isLocal = policy === 'Local' && (role === 'cluster' || isOutside);
  const list = isLocal ? localEndpoints(endpoints, node) : clusterEndpoints(endpoints, node);
  if (list.length === 0) return { kind: 'drop' };
  // Only an endpoint's own node masquerades what it sends to itself; where no node is named, each may be the one.
  const mayStartHere = ({ text, node: home = node.name }: HeaderNote): boolean =>
    home === node.name && addressOfEndpoint(text) === source.address;
  const itself = new Set(list.filter(mayStartHere).map(({ text }) => text));
  return choice(list, notes, (text) => {
    if (itself.has(text)) return true;
    if (role === 'cluster') return trafficPolicy.masqueradeAll === true || (isKnown && !isPod);
    return policy === 'Cluster' || (source.class === 'node' && !isPod);
  });
}
