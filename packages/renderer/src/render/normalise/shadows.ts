import { families, type Family, printEndpoint, type Problem } from '@sluice/netfilter';
import type { Path } from '../model/kube.ts';
import type { Node, PortOfFamily, ServicePort } from '../model/model.ts';
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
  const listeners = listenersOf(services, nodes);
  return services.flatMap(([read, { ports }]) => {
    const found = ports.flatMap((port) => [...shadowsOfAddresses(read, port, listeners), ...shadowOfNodePort(port)]);
    // Ports of one protocol each, and families, may hide the same listener.
    const each = new Map(found.map((shadow) => [`${shadow.path.join()} ${shadow.what}`, shadow]));
    return [...each.values()].map(({ path, what }) => problem(read, path, what));
  });
}

/** What Services may hide. */
interface Listeners {
  /** The Node of an address. */
  readonly nodeOf: ReadonlyMap<string, string>;
  /** The Service of a ClusterIP. */
  readonly clusterIPs: ReadonlyMap<string, string>;
  /** `10.96.0.10 80/tcp`: two Services with one of these are a conflict, which `findClashes` reports. */
  readonly taken: ReadonlySet<string>;
  /** `192.0.2.1:6443` */
  readonly apiServers: ReadonlySet<string>;
}

function listenersOf(services: MadeServices, nodes: readonly Node[]): Listeners {
  const fronts = services.flatMap(([{ key }, { ports }]) =>
    ports.flatMap(({ families: byFamily, port, protocol }) =>
      Object.values(byFamily).map((front) => ({ key, front, place: `${front.clusterIP} ${port}/${protocol}` })),
    ),
  );
  const addresses = nodes.flatMap(({ name, address }) => Object.values(address).map((one) => [one, name] as const));
  const ofApiServers = fronts.filter(({ key }) => key === 'default/kubernetes');
  return {
    nodeOf: new Map(addresses),
    clusterIPs: new Map(fronts.map(({ key, front }) => [front.clusterIP, key])),
    taken: new Set(fronts.map(({ place }) => place)),
    apiServers: new Set(ofApiServers.flatMap(({ front }) => front.endpoints.map(({ text }) => text))),
  };
}

/** What a Service hides, and the path of the field by which it does. */
interface Shadow {
  readonly path: Path;
  readonly what: string;
}

function shadowOfNodePort({ nodePort }: ServicePort): readonly Shadow[] {
  const owner = portsOfNodes.get(nodePort);
  if (owner === undefined) return [];
  const what = `node port ${nodePort} is that of ${owner}: connections to it go to the Service`;
  return [{ path: ['spec', 'ports'], what }];
}

function shadowsOfAddresses(read: ReadService, port: ServicePort, listeners: Listeners): readonly Shadow[] {
  return families.flatMap((family) => {
    const front = port.families[family];
    if (!front) return [];
    const own = shadowOfClusterIP(read, port, front, family, listeners);
    return [...own, ...front.externalIPs.flatMap((address) => shadowsOfExternalIP(read, port, address, listeners))];
  });
}

function shadowOfClusterIP(
  read: ReadService,
  { port }: ServicePort,
  { clusterIP }: PortOfFamily,
  family: Family,
  { nodeOf }: Listeners,
): readonly Shadow[] {
  const node = nodeOf.get(clusterIP);
  if (node === undefined) return [];
  const what = `ClusterIP ${clusterIP} is the address of Node ${node}: connections to port ${port} of the node go to the Service`;
  return [{ path: clusterIPPath(read, family), what }];
}

function shadowsOfExternalIP(
  { key, externalIPs }: ReadService,
  { port, protocol }: ServicePort,
  address: string,
  { clusterIPs, taken, apiServers }: Listeners,
): readonly Shadow[] {
  const path: Path = ['spec', 'externalIPs', externalIPs.indexOf(address)];
  const owner = clusterIPs.get(address);
  const found: Shadow[] = [];
  if (owner !== undefined && owner !== key && !taken.has(`${address} ${port}/${protocol}`))
    found.push({
      path,
      what: `external IP ${address} is the ClusterIP of Service ${owner}: its clients reach this Service on port ${port}`,
    });
  if (apiServers.has(printEndpoint(address, port)))
    found.push({
      path,
      what: `external IP ${address} with port ${port} is an API server: connections to it go to the Service`,
    });
  return found;
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
