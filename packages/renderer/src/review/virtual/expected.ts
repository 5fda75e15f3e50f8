import { compareText } from '@sluice/bundle';
import {
  affinityOf,
  type Asking,
  clusterEndpoints,
  endpointsOf,
  type Expected,
  hostOf,
  isAllowed,
  isLocalPod,
  isOpen,
  localEndpoints,
} from '../expected.ts';
import type { HeaderNote } from '../header.ts';
import { factOf } from '../node.ts';

/** Schedulers by which real servers get connections by their weight (`net/netfilter/ipvs`). */
const byWeight: ReadonlySet<string> = new Set(['wrr', 'wlc', 'lblc', 'lblcr', 'sed', 'nq', 'sh', 'mh']);

/**
 * What a node of mode ipvs must do with connections to a claimed destination: kube-proxy's `syncProxyRules` and `syncEndpoint` in
 * `pkg/proxy/ipvs`. It differs from mode iptables in what `differences.ts` lists.
 */
export function expectedIpvs(asking: Asking): Expected {
  const { claim, node, family, source, manners } = asking;
  const { role, destination, declared } = claim;
  const { notes } = declared;
  if (role === 'node-port' && !isOpen(node, family, destination, manners)) return { kind: 'pass' };
  // The node itself speaks to the address from that address, and is let in where its own is in the ranges.
  if (role === 'load-balancer' && !isAllowed(notes, node, family, source)) return { kind: 'drop' };
  const policy = role === 'cluster' ? notes.internalPolicy : notes.externalPolicy;
  const endpoints = servers(asking, policy === 'Local').filter(({ weight }) => weight > 0);
  // The kernel answers for a virtual server without real servers.
  if (endpoints.length === 0) return { kind: 'reject' };
  const isMasked = role === 'cluster' ? !isLocalPod(asking) || isUndetectedNode(asking) : policy === 'Cluster';
  const scheduler = notes.scheduler === undefined ? manners.scheduler : withFlags(notes.scheduler);
  const shareOf = ({ weight }: HeaderNote): number => (byWeight.has((scheduler ?? '').split(' ')[0]!) ? weight : 1);
  const sum = endpoints.reduce((all, endpoint) => all + shareOf(endpoint), 0);
  return {
    kind: 'endpoints',
    branches: endpoints
      .map((endpoint) => ({
        verdict: 'dnat' as const,
        to: endpoint.text,
        // Only an endpoint's own node sees it meet itself.
        masquerade: isMasked || (hostOf(endpoint.text) === source.address && endpoint.node === node.name),
        share: shareOf(endpoint) / sum,
      }))
      .toSorted((a, b) => compareText(a.to, b.to)),
    ...affinityOf(notes),
    ...(scheduler === undefined || endpoints.length < 2 ? {} : { scheduler }),
  };
}

/** kube-proxy sets flag 0x10 for every `mh`: the client's port counts, too. */
export function withFlags(scheduler: string): string {
  return scheduler === 'mh' ? 'mh mh-port' : scheduler;
}

/**
 * With policy Local a node sends traffic on where it has no endpoint itself (kubernetes/kubernetes#97081), unless nothing but
 * policy Local asks for endpoints of other nodes.
 */
function servers({ claim, node }: Asking, onlyLocal: boolean): readonly HeaderNote[] {
  const endpoints = endpointsOf(claim);
  const own = localEndpoints(endpoints, node);
  if (onlyLocal && own.length > 0) return own;
  const { notes } = claim.declared;
  const isExternal =
    claim.port?.nodePort !== 0 || notes.externalAddresses.length + notes.loadBalancerAddresses.length > 0;
  return notes.internalPolicy === 'Local' && !isExternal ? [] : clusterEndpoints(endpoints, node);
}

/** Where no detector works, only the node itself is known, by its using the Service's own address. */
function isUndetectedNode({ node, family, source, manners, claim }: Asking): boolean {
  const carries = claim.destination.address !== factOf(node, family, 'address');
  return source.class === 'node' && carries && manners.notLocal !== '';
}
