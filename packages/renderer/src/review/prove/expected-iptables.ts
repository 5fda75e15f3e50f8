import { addressOfEndpoint } from '@sluice/netfilter';
import {
  choice,
  clusterEndpoints,
  type DeclaredConnection,
  endpointsOf,
  type ExpectedOutcome,
  isAllowed,
  isLocalPod,
  isOpen,
  localEndpoints,
  type ProfileTrafficPolicy,
  usable,
} from './connection.ts';
import type { FlowSource } from '../flows/flow.ts';
import type { HeaderNote } from '../bundle/header.ts';

/** kube-proxy's `syncProxyRules` in `pkg/proxy/iptables` and `CategorizeEndpoints`. */
export function expectedIptables(connection: DeclaredConnection): ExpectedOutcome {
  const { claim, node, family, source, trafficPolicy } = connection;
  const { role, destination, declared } = claim;
  const { notes } = declared;
  const endpoints = endpointsOf(claim);
  if (usable(endpoints).length === 0) return { kind: 'reject' };
  const isPods = isLocalPod(connection);
  const to = (list: readonly HeaderNote[], masquerade: boolean): ExpectedOutcome =>
    list.length === 0
      ? { kind: 'drop' }
      : choice(list, notes, (text) => masquerade || addressOfEndpoint(text) === source.address);
  const cluster = (masquerade: boolean): ExpectedOutcome => to(clusterEndpoints(endpoints, node), masquerade);
  const local = (masquerade: boolean): ExpectedOutcome => to(localEndpoints(endpoints, node), masquerade);
  if (role === 'cluster') return notes.internalPolicy === 'Local' ? local(!isPods) : cluster(!isPods);
  if (role === 'load-balancer' && !isAllowed(notes, node, family, source)) return { kind: 'drop' };
  const outcome =
    notes.externalPolicy === 'Local' ? externalLocal(source, isPods, trafficPolicy, cluster, local) : cluster(true);
  const closed = role === 'node-port' && !isOpen(node, family, destination, trafficPolicy);
  // Rules that reject or drop match every address of the node, not only open ones.
  return closed && outcome.kind === 'endpoints' ? { kind: 'pass' } : outcome;
}

/** With policy Local only the node and its pods reach endpoints on other nodes; other sources get local endpoints or are dropped. */
function externalLocal(
  source: FlowSource,
  isPods: boolean,
  trafficPolicy: ProfileTrafficPolicy,
  cluster: (masquerade: boolean) => ExpectedOutcome,
  local: (masquerade: boolean) => ExpectedOutcome,
): ExpectedOutcome {
  const knowsPods = trafficPolicy.notLocal !== '';
  if (knowsPods && isPods) return cluster(false);
  return source.class === 'node' ? cluster(true) : local(false);
}
