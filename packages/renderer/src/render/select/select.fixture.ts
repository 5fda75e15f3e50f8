import type { Endpoint, PortOfFamily, ServicePort } from '../model/model.ts';
import { type NodeView, union, usable, usesOf } from './select.ts';

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
