import type { Problem } from '@sluice/netfilter';
import type { Path } from '../kube.ts';
import type { Node, PortOfFamily, ServicePort } from '../model.ts';
import type { ReadService } from '../read/read-service.ts';
import { clusterIPPath } from '../read/service-addresses.ts';
import type { MadeServices } from './service.ts';

/** Important ports of nodes, which a wide `nodePortRange` may include. */
const portsOfNodes: ReadonlyMap<number, string> = new Map([
  [22, 'SSH'],
  [10_250, 'the kubelet'],
]);

/**
 * Services that hide another listener: a ClusterIP that is the address of a Node, an external IP that is the ClusterIP of another
 * Service or an endpoint of the API server, the node ports of SSH and the kubelet. All are allowed and rarely intended. An external IP at
 * the address of a Node is common, and not reported.
 * @returns a warning for each
 */
export function findShadows(services: MadeServices, nodes: readonly Node[]): readonly Problem[] {
  const nodeOf = new Map(
    nodes.flatMap(({ name, address }) => Object.values(address).map((one) => [one, name] as const)),
  );
  const clusterIPs = new Map<string, string>();
  /** Two Services with one of these are a conflict, which `findClashes` reports. */
  const taken = new Set<string>();
  const apiServers = new Set<string>();
  for (const [{ key }, { ports }] of services)
    for (const { families, port, protocol } of ports)
      for (const { clusterIP, endpoints } of Object.values(families)) {
        clusterIPs.set(clusterIP, key);
        taken.add(`${clusterIP} ${port}/${protocol}`);
        if (key === 'default/kubernetes') for (const { text } of endpoints) apiServers.add(text);
      }
  return services.flatMap(([read, { ports }]) => {
    const found = new Map<string, Problem>();
    const warn = (path: Path, what: string): void =>
      void found.set(`${path.join()} ${what}`, problem(read, path, what));
    for (const { families, port, protocol, nodePort } of ports) {
      for (const family of ['ipv4', 'ipv6'] as const) {
        const front = families[family];
        if (front) warnOfAddresses(front, { port, protocol }, family);
      }
      const owner = portsOfNodes.get(nodePort);
      if (owner !== undefined)
        warn(['spec', 'ports'], `node port ${nodePort} is that of ${owner}: connections to it go to the Service`);
    }
    return [...found.values()];

    function warnOfAddresses(
      front: PortOfFamily,
      { port, protocol }: Pick<ServicePort, 'port' | 'protocol'>,
      family: 'ipv4' | 'ipv6',
    ): void {
      const node = nodeOf.get(front.clusterIP);
      if (node !== undefined)
        warn(
          clusterIPPath(read, family),
          `ClusterIP ${front.clusterIP} is the address of Node ${node}: connections to port ${port} of the node go to the Service`,
        );
      for (const address of front.externalIPs) {
        const path: Path = ['spec', 'externalIPs', read.externalIPs.indexOf(address)];
        const owner = clusterIPs.get(address);
        if (owner !== undefined && owner !== read.key && !taken.has(`${address} ${port}/${protocol}`))
          warn(
            path,
            `external IP ${address} is the ClusterIP of Service ${owner}: its clients reach this Service on port ${port}`,
          );
        if (apiServers.has(address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`))
          warn(path, `external IP ${address} with port ${port} is an API server: connections to it go to the Service`);
      }
    }
  });
}

function problem({ key, object }: ReadService, path: Path, what: string): Problem {
  return {
    code: 'SERVICE_SHADOWS',
    level: 'warning',
    at: object.origin.place(path),
    object: `Service ${key}`,
    message: `Service ${key} hides another listener: ${what}`,
    hint: 'Use another address or port for the Service, unless this is intended',
  };
}
