import { clusterEndpoints, localEndpoints } from '../bundle/endpoints.ts';
import { addressOfEndpoint, compareText } from '@sluice/netfilter';
import {
  affinityOf,
  type DeclaredConnection,
  endpointsOf,
  type ExpectedOutcome,
  isAllowed,
  isLocalPod,
  isOpen,
} from './connection.ts';
import type { HeaderNote } from '@sluice/bundle';
import { factOf } from '../bundle/node.ts';

/** Schedulers that distribute connections by weight (`net/netfilter/ipvs`). */
const byWeight: ReadonlySet<string> = new Set(['wrr', 'wlc', 'lblc', 'lblcr', 'sed', 'nq', 'sh', 'mh']);

/**
 * The outcome that a Service's declaration demands of a node of mode ipvs: kube-proxy's `syncProxyRules` and `syncEndpoint` in
 * `pkg/proxy/ipvs`. `differences.ts` lists the differences from mode iptables.
 */
export function expectedIpvs(connection: DeclaredConnection): ExpectedOutcome {
  const { frontend, node, family, source, trafficPolicy } = connection;
  const { role, destination, declared } = frontend;
  const { notes } = declared;
  // Nothing serves a closed node port, and its entries in sets go, so that nothing marks packets to it.
  if (role === 'node-port' && !isOpen(node, family, destination, trafficPolicy)) return { kind: 'pass' };
  const policy = role === 'cluster' ? notes.internalPolicy : notes.externalPolicy;
  const endpoints = servers(connection, policy === 'Local').filter(({ weight }) => weight > 0);
  // Connections of the node itself meet the virtual server before any filter (`NF_INET_LOCAL_OUT`).
  if (endpoints.length === 0 && source.class === 'node') return { kind: 'reject' };
  // The node itself sends from the Service's address, and is admitted where its own address is in the ranges.
  if (role === 'load-balancer' && !isAllowed(notes, node, family, source)) return { kind: 'drop' };
  // The kernel rejects connections to a virtual server without real servers.
  if (endpoints.length === 0) return { kind: 'reject' };
  const isMasked = role === 'cluster' ? !isLocalPod(connection) || isUndetectedNode(connection) : policy === 'Cluster';
  const scheduler = notes.scheduler === undefined ? trafficPolicy.scheduler : withFlags(notes.scheduler);
  const shareOf = ({ weight }: HeaderNote): number => (byWeight.has((scheduler ?? '').split(' ')[0]!) ? weight : 1);
  const sender = senderOf(connection);
  const sum = endpoints.reduce((all, endpoint) => all + shareOf(endpoint), 0);
  return {
    kind: 'endpoints',
    branches: endpoints
      .map((endpoint) => ({
        verdict: 'dnat' as const,
        to: endpoint.text,
        // Only an endpoint's own node has a rule for its hairpin traffic.
        masquerade: isMasked || (addressOfEndpoint(endpoint.text) === sender && endpoint.node === node.name),
        share: shareOf(endpoint) / sum,
      }))
      .toSorted((a, b) => compareText(a.to, b.to)),
    ...affinityOf(notes),
    ...(scheduler === undefined || endpoints.length < 2 ? {} : { scheduler }),
  };
}

/** The source of packets: to an address that the node carries, it sends from that same address. */
function senderOf(connection: DeclaredConnection): string {
  const { source, frontend } = connection;
  return source.class === 'node' && carries(connection) ? frontend.destination.address : source.address;
}

/** Whether the node carries the destination's address: every one of a Service but its own. */
function carries({ node, family, frontend }: DeclaredConnection): boolean {
  const { kind, address } = frontend.destination;
  return kind === 'address' && address !== factOf(node, family, 'address');
}

/** kube-proxy sets flag 0x10 for every `mh`: the hash includes the client's port. */
export function withFlags(scheduler: string): string {
  return scheduler === 'mh' ? 'mh mh-port' : scheduler;
}

/**
 * With policy Local a node without endpoints of its own forwards to other nodes (kubernetes/kubernetes#97081), unless the Service has
 * internal policy Local and no external frontend.
 */
function servers({ frontend, node }: DeclaredConnection, onlyLocal: boolean): readonly HeaderNote[] {
  const endpoints = endpointsOf(frontend);
  const own = localEndpoints(endpoints, node);
  if (onlyLocal && own.length > 0) return own;
  const { notes } = frontend.declared;
  const isExternal =
    frontend.port?.nodePort !== 0 || notes.externalAddresses.length + notes.loadBalancerAddresses.length > 0;
  return notes.internalPolicy === 'Local' && !isExternal ? [] : clusterEndpoints(endpoints, node);
}

/** Where the detector does not match, the node itself is still recognised: it sends from the Service's own address. */
function isUndetectedNode(connection: DeclaredConnection): boolean {
  return connection.source.class === 'node' && carries(connection) && connection.trafficPolicy.notLocal !== '';
}
