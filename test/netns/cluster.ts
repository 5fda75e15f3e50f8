import { execa } from 'execa';
import { Host } from './cluster-host.ts';
import { routeThrough, wiring } from './cluster-links.ts';

/** A cluster as data. Names are unique, and none is `router` or `outside`. */
export interface ClusterSpec {
  readonly nodes: readonly NodeSpec[];
  readonly pods: readonly PodSpec[];
  /** The addresses of the client outside the cluster. */
  readonly outside: readonly string[];
}

export interface NodeSpec {
  readonly name: string;
  readonly addresses: readonly string[];
  readonly podCIDRs: readonly string[];
}

export interface PodSpec {
  readonly name: string;
  readonly node: string;
  readonly addresses: readonly string[];
  /** Where the pod answers, as `8080/tcp` or `53/udp`. */
  readonly ports: readonly string[];
}

/** A running cluster: `await using cluster = await openCluster(spec)`. */
export interface Cluster extends AsyncDisposable {
  readonly spec: ClusterSpec;
  /** A node, a pod or `outside`. */
  host(name: string): Host;
  /** Routes traffic for an address that no machine has (a VIP) into the cluster at a node, as a load balancer or a BGP route would. */
  enterAt(address: string, node: string): Promise<void>;
}

/** Sysctls that a test must not inherit from this machine, and no rate limit on ICMP errors that a test waits for. */
export const quietSysctls: Readonly<Record<string, string>> = {
  'net/ipv4/ip_forward': '1',
  'net/ipv4/icmp_ratelimit': '0',
  'net/ipv4/conf/all/rp_filter': '0',
  'net/ipv4/conf/default/rp_filter': '0',
  'net/ipv4/conf/all/send_redirects': '0',
  'net/ipv4/conf/default/send_redirects': '0',
  'net/ipv6/conf/all/disable_ipv6': '0',
  'net/ipv6/conf/default/disable_ipv6': '0',
  'net/ipv6/conf/all/forwarding': '1',
  'net/ipv6/icmp/ratelimit': '0',
  'net/ipv6/conf/all/accept_dad': '0',
  'net/ipv6/conf/default/accept_dad': '0',
};

/** Builds the namespaces, their wires and routes, and starts the pods' servers. Needs root. */
export async function openCluster(spec: ClusterSpec): Promise<Cluster> {
  const names = ['router', 'outside', ...spec.nodes.map((n) => n.name), ...spec.pods.map((p) => p.name)];
  if (new Set(names).size < names.length)
    throw new Error(`Cannot build the cluster: duplicate names: ${names.join(', ')}`);
  const started = await Promise.allSettled(names.map((name) => Host.start(name)));
  const hosts = new Map(started.flatMap((s) => (s.status === 'fulfilled' ? [[s.value.name, s.value] as const] : [])));
  const close = async (): Promise<void> => void (await Promise.all([...hosts.values()].map((host) => host.close())));
  const host = (name: string): Host => {
    const found = hosts.get(name);
    if (!found) throw new Error(`The cluster has no machine ${name}`);
    return found;
  };
  try {
    for (const name of names) host(name);
    await setUp(spec, host, names);
  } catch (error) {
    await close();
    throw error;
  }
  return { spec, host, enterAt: (address, node) => enterAt(spec, host, address, node), [Symbol.asyncDispose]: close };
}

async function setUp(spec: ClusterSpec, host: (name: string) => Host, names: readonly string[]): Promise<void> {
  await Promise.all(names.map((name) => host(name).sysctl(quietSysctls)));
  const { wires, machines } = wiring(spec, (name) => host(name).pid);
  // From outside the router's process namespace, in which the other machines' process numbers mean nothing.
  await execa('nsenter', [`--target=${host('router').pid}`, '--net', '--', 'ip', '-batch', '-'], { input: wires });
  await Promise.all([...machines].map(([name, lines]) => batch(host(name), lines)));
  await Promise.all(spec.pods.flatMap((pod) => pod.ports.map((text) => serve(host(pod.name), text))));
}

async function serve(pod: Host, text: string): Promise<void> {
  const [port, protocol] = text.split('/');
  if (protocol !== 'tcp' && protocol !== 'udp')
    throw new Error(`Cannot serve ${text} on ${pod.name}: the protocol must be tcp or udp`);
  await pod.serve(protocol, Number(port));
}

async function enterAt(spec: ClusterSpec, host: (name: string) => Host, address: string, name: string): Promise<void> {
  const index = spec.nodes.findIndex((node) => node.name === name);
  await batch(host('router'), `${routeThrough(address, spec.nodes[index]?.addresses ?? [], `node${index}`)}\n`);
}

async function batch(host: Host, lines: string): Promise<void> {
  await host.run(['ip', '-batch', '-'], { input: lines });
}
