import { compareText } from '@sluice/netfilter';
import type { Endpoint, PortOfFamily, ServicePort } from '../model/model.ts';

/** The values of a node on which the selection of endpoints depends. */
export interface NodeView {
  readonly name: string;
  /** `topology.kubernetes.io/zone`. */
  readonly zone?: string;
}

/** The endpoints of one Service port in one family on one node. */
interface Selected {
  /** The endpoints of `KUBE-SVC-…`. */
  readonly cluster: readonly Endpoint[];
  /** The endpoints of `KUBE-SVL-…`. */
  readonly local: readonly Endpoint[];
  /** The endpoints with a chain of their own. */
  readonly all: readonly Endpoint[];
  /** A usable endpoint exists. */
  readonly hasAny: boolean;
}

/** The lists that a Service port needs: kube-proxy's `UsesClusterEndpoints` and `UsesLocalEndpoints`. */
interface Uses {
  readonly cluster: boolean;
  readonly local: boolean;
}

/** Whether a port has an external frontend: a node port, a load-balancer or an external address. */
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

/** Whether an endpoint terminates but still serves: used only if no ready one is left (KEP-1669). */
function isTerminatingButServing(endpoint: Endpoint): boolean {
  return endpoint.serving && endpoint.terminating;
}

/** The ready endpoints of a list or, where there are none, the terminating ones that still serve. */
export function usable(endpoints: readonly Endpoint[]): readonly Endpoint[] {
  const ready = endpoints.filter((endpoint) => endpoint.ready);
  return ready.length > 0 ? ready : endpoints.filter(isTerminatingButServing);
}

/**
 * kube-proxy's `CategorizeEndpoints` (`pkg/proxy/topology.go`) for one node. Rules are made from its form for all nodes,
 * `selectForFleet`; tests compare that with this form.
 * @param here the port in one family, with its endpoints in order
 */
export function selectEndpoints(port: ServicePort, here: PortOfFamily, node: NodeView): Selected {
  const uses = usesOf(port, here);
  const cluster = uses.cluster ? clusterEndpoints(here.endpoints, node) : [];
  if (!uses.local) return { cluster, local: [], all: cluster, hasAny: cluster.length > 0 };
  const local = usable(here.endpoints.filter((endpoint) => endpoint.nodeName === node.name));
  return { cluster, local, all: union(cluster, local), hasAny: usable(here.endpoints).length > 0 };
}

/** The usable endpoints of a node under topology hints. */
function clusterEndpoints(endpoints: readonly Endpoint[], node: NodeView): readonly Endpoint[] {
  const ready = endpoints.filter((endpoint) => endpoint.ready);
  // One ready endpoint without a hint disables that kind of hint for the whole port.
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
