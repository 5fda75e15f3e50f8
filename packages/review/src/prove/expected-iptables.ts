import { clusterEndpoints, localEndpoints, usable } from '../bundle/endpoints.ts';
import { addressOfEndpoint } from '@sluice/netfilter';
import {
  choice,
  type DeclaredConnection,
  endpointsOf,
  type ExpectedOutcome,
  isAllowed,
  isLocalPod,
  isOpen,
  knowsPods,
} from './connection.ts';
import type { HeaderNote } from '@sluice/bundle';

/** kube-proxy's `syncProxyRules` in `pkg/proxy/iptables` and `CategorizeEndpoints`. */
export function expectedIptables(connection: DeclaredConnection): ExpectedOutcome {
  const { frontend, node, family, source, trafficPolicy } = connection;
  const { role, destination, declared } = frontend;
  const { notes } = declared;
  const endpoints = endpointsOf(frontend);
  if (usable(endpoints).length === 0) {
    // KUBE-EXTERNAL-SERVICES is in INPUT and FORWARD alone: at addresses that are not its own, the node itself is not refused.
    const isUnseen = source.class === 'node' && (role === 'external' || role === 'load-balancer');
    return { kind: isUnseen ? 'pass' : 'reject' };
  }
  const isPods = isLocalPod(connection);
  const to = (list: readonly HeaderNote[], masquerade: boolean): ExpectedOutcome =>
    list.length === 0
      ? { kind: 'drop' }
      : choice(list, notes, (text) => masquerade || addressOfEndpoint(text) === source.address);
  const cluster = (masquerade: boolean): ExpectedOutcome => to(clusterEndpoints(endpoints, node), masquerade);
  const local = (masquerade: boolean): ExpectedOutcome => to(localEndpoints(endpoints, node), masquerade);
  const isMasked = trafficPolicy.masqueradeAll === true || !isPods;
  if (role === 'cluster') return notes.internalPolicy === 'Local' ? local(isMasked) : cluster(isMasked);
  if (role === 'load-balancer' && !isAllowed(notes, node, family, source)) return { kind: 'drop' };
  const isLocal = notes.externalPolicy === 'Local';
  if (role === 'node-port' && !isOpen(node, family, destination, trafficPolicy)) {
    // Nothing translates there, so sources count no more; rules that drop match every address of the node, not only open ones.
    return isLocal && localEndpoints(endpoints, node).length === 0 ? { kind: 'drop' } : { kind: 'pass' };
  }
  if (!isLocal) return cluster(true);
  // With policy Local only the node and its pods reach endpoints on other nodes. Where pods are unknown, the rule for them is left out.
  if (isPods && knowsPods(connection)) return cluster(false);
  return source.class === 'node' ? cluster(true) : local(false);
}
