import { compareText } from '@sluice/netfilter';
import type { Endpoint, PortOfFamily, ServicePort } from '../model/model.ts';

/** The values of a node on which the selection of endpoints depends. */
export interface NodeView {
  readonly name: string;
  /** `topology.kubernetes.io/zone`. */
  readonly zone?: string;
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

/** Decides which endpoints a port needs on a node: those of the cluster, of the node, or both. */
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

/** Decides which endpoints of a list get packets: the ready ones or, where there are none, the terminating ones that still serve. */
export function usable(endpoints: readonly Endpoint[]): readonly Endpoint[] {
  const ready = endpoints.filter((endpoint) => endpoint.ready);
  return ready.length > 0 ? ready : endpoints.filter(isTerminatingButServing);
}

/** Every endpoint of the lists once, by its text. */
export function union(...lists: readonly (readonly Endpoint[])[]): readonly Endpoint[] {
  const byText = new Map(lists.flat().map((endpoint) => [endpoint.text, endpoint]));
  return [...byText.values()].toSorted((a, b) => compareText(a.text, b.text));
}
