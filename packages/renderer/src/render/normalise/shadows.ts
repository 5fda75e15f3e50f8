import { families, type Family, modeFacts, printEndpoint, type Problem, shortList } from '@sluice/netfilter';
import type { Profile } from '../model/config.ts';
import type { Path } from '../model/kube.ts';
import type { Node, PortOfFamily, ServicePort } from '../model/model.ts';
import type { ReadNode } from '../read/node.ts';
import type { ReadService } from '../read/read-service.ts';
import { clusterIPPath } from '../read/service-addresses.ts';
import { addressesOf, type PlacedAddress } from './clashes.ts';
import type { MadeServices } from './service.ts';

/** Important ports of nodes, which a wide `nodePortRange` may include. */
const portsOfNodes: ReadonlyMap<number, string> = new Map([
  [22, 'SSH'],
  [10_250, 'the kubelet'],
]);

interface Cluster {
  readonly nodes: readonly Node[];
  /** Node objects by name: a Node has one address in the rules, and may have more. */
  readonly objects: ReadonlyMap<string, Pick<ReadNode, 'addresses'>>;
  /** Those that nodes have. */
  readonly profiles: readonly Profile[];
}

/**
 * Services that hide another listener: a ClusterIP that is the address of a Node, an external IP that is the ClusterIP of another
 * Service or an endpoint of the API server, the node ports of SSH and the kubelet. All are allowed and rarely intended. An external or
 * load-balancer address that is one of a Node is common (ServiceLB of k3s), and not reported, except in a mode that gives it to an
 * interface of every node: such a node reaches the other one on no port any more, neither API server nor kubelet.
 * @returns a warning for each, and an error for an address of another node
 */
export function findShadows(services: MadeServices, cluster: Cluster): readonly Problem[] {
  const listeners = listenersOf(services, cluster);
  return services.flatMap(([read, { ports }]) => {
    const found = ports.flatMap((port) => [...shadowsOfAddresses(read, port, listeners), ...shadowOfNodePort(port)]);
    // Ports of one protocol each, and families, may hide the same listener.
    const each = new Map(found.map((shadow) => [`${shadow.path.join()} ${shadow.what}`, shadow]));
    return [...each.values()].map((shadow) => problem(read, shadow));
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
  /** The nodes that would have every address of a Service on an interface. */
  readonly binding: readonly string[];
}

function listenersOf(services: MadeServices, { nodes, objects, profiles }: Cluster): Listeners {
  const fronts = services.flatMap(([{ key }, { ports }]) =>
    ports.flatMap(({ families: byFamily, port, protocol }) =>
      Object.values(byFamily).map((front) => ({ key, front, place: `${front.clusterIP} ${port}/${protocol}` })),
    ),
  );
  const addresses = nodes.flatMap(({ name, address }) =>
    [...Object.values(address), ...(objects.get(name)?.addresses ?? [])].map((one) => [one, name] as const),
  );
  const binding = new Set(profiles.filter(({ mode }) => modeFacts[mode].bindsAddresses).map(({ name }) => name));
  const ofApiServers = fronts.filter(({ key }) => key === 'default/kubernetes');
  return {
    nodeOf: new Map(addresses),
    clusterIPs: new Map(fronts.map(({ key, front }) => [front.clusterIP, key])),
    taken: new Set(fronts.map(({ place }) => place)),
    apiServers: new Set(ofApiServers.flatMap(({ front }) => front.endpoints.map(({ text }) => text))),
    binding: nodes.filter(({ profile }) => binding.has(profile)).map(({ name }) => name),
  };
}

/** What a Service hides, and the path of the field by which it does. */
interface Shadow {
  readonly path: Path;
  readonly what: string;
  /** A node loses another one. */
  readonly isFatal?: boolean;
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
    const bound = addressesOf(read, front, family).flatMap((one) => boundOnOthers(one, listeners));
    const own = bound.some(({ path }) => path.includes('clusterIP') || path.includes('clusterIPs'))
      ? []
      : shadowOfClusterIP(read, port, front, family, listeners);
    const external = front.externalIPs.flatMap((address) => shadowsOfExternalIP(read, port, address, listeners));
    return [...bound, ...own, ...external];
  });
}

function boundOnOthers({ address, path }: PlacedAddress, { nodeOf, binding }: Listeners): readonly Shadow[] {
  const owner = nodeOf.get(address);
  const others = binding.filter((name) => name !== owner);
  if (owner === undefined || others.length === 0) return [];
  const what = `${address} is an address of Node ${owner}, and in mode ipvs ${shortList(others, 1)} would have it on kube-ipvs0: no port of ${owner} could be reached from there`;
  return [{ path, what, isFatal: true }];
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

function problem({ key, object }: ReadService, { path, what, isFatal = false }: Shadow): Problem {
  return {
    code: 'SERVICE_SHADOWS',
    level: isFatal ? 'error' : 'warning',
    at: object.origin.place(path),
    object: `Service ${key}`,
    message: `Service ${key} hides another listener: ${what}`,
    hint: isFatal
      ? 'Use mode iptables or nftables, where nodes keep their addresses; or another address, or ipMode Proxy, for the Service'
      : 'Use another address or port for the Service, unless this is intended',
  };
}
