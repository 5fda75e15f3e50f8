import { compareText } from '@sluice/bundle';
import type { Endpoint, PortOfFamily, ServicePort } from '../model.ts';

/** What the choice of endpoints knows about a node. */
export interface NodeView {
  readonly name: string;
  /** `topology.kubernetes.io/zone`. */
  readonly zone?: string;
}

/** Which endpoints one node uses for one Service port in one family. */
export interface Selected {
  /** What `KUBE-SVC-…` leads to. */
  readonly cluster: readonly Endpoint[];
  /** What `KUBE-SVL-…` leads to. */
  readonly local: readonly Endpoint[];
  /** What has a chain of its own. */
  readonly all: readonly Endpoint[];
  /** Some node could serve this port. */
  readonly hasAny: boolean;
}

/** Which of the two lists a Service port needs: kube-proxy's `UsesClusterEndpoints` and `UsesLocalEndpoints`. */
export interface Uses {
  readonly cluster: boolean;
  readonly local: boolean;
}

/** Whether traffic from outside the cluster has a way in: a node port, a load-balancer or an external address. */
export function isExternal(port: ServicePort, here: PortOfFamily): boolean {
  return port.nodePort !== 0 || here.loadBalancerIPs.length > 0 || here.externalIPs.length > 0;
}

export function usesOf(port: ServicePort, here: PortOfFamily): Uses {
  const external = isExternal(port, here);
  return {
    cluster: port.internalTrafficPolicy !== 'Local' || external,
    local: port.internalTrafficPolicy === 'Local' || (port.externalTrafficPolicy === 'Local' && external),
  };
}

/** An endpoint that goes away but still answers: used only where no ready one is left (KEP-1669). */
export function isLeaving(endpoint: Endpoint): boolean {
  return endpoint.serving && endpoint.terminating;
}

/** The ready endpoints of a list or, where there are none, those that are leaving. */
export function usable(endpoints: readonly Endpoint[]): readonly Endpoint[] {
  const ready = endpoints.filter((endpoint) => endpoint.ready);
  return ready.length > 0 ? ready : endpoints.filter(isLeaving);
}

/**
 * kube-proxy's `CategorizeEndpoints` (`pkg/proxy/topology.go`) for one node. The rules are made from its symbolic form, `selectForFleet`;
 * this direct form is what that one is measured against, and what explains one node.
 * @param here the port in the family at hand, with its endpoints in their order
 */
export function selectEndpoints(port: ServicePort, here: PortOfFamily, node: NodeView): Selected {
  const uses = usesOf(port, here);
  const cluster = uses.cluster ? clusterEndpoints(here.endpoints, node) : [];
  if (!uses.local) return { cluster, local: [], all: cluster, hasAny: cluster.length > 0 };
  const local = usable(here.endpoints.filter((endpoint) => endpoint.nodeName === node.name));
  return { cluster, local, all: union(cluster, local), hasAny: usable(here.endpoints).length > 0 };
}

/** The usable endpoints that the hints leave to this node. */
function clusterEndpoints(endpoints: readonly Endpoint[], node: NodeView): readonly Endpoint[] {
  const ready = endpoints.filter((endpoint) => endpoint.ready);
  // One ready endpoint without a hint switches a kind of hint off for the whole port.
  if (ready.every((endpoint) => endpoint.hintNodes.length > 0)) {
    const sameNode = ready.filter((endpoint) => endpoint.hintNodes.includes(node.name));
    if (sameNode.length > 0) return sameNode;
  }
  const { zone } = node;
  if (zone !== undefined && ready.every((endpoint) => endpoint.hintZones.length > 0)) {
    const sameZone = ready.filter((endpoint) => endpoint.hintZones.includes(zone));
    if (sameZone.length > 0) return sameZone;
  }
  return usable(endpoints);
}

/** Every endpoint of the lists once, by its text. */
export function union(...lists: readonly (readonly Endpoint[])[]): readonly Endpoint[] {
  const byText = new Map(lists.flat().map((endpoint) => [endpoint.text, endpoint]));
  return [...byText.values()].toSorted((a, b) => compareText(a.text, b.text));
}
