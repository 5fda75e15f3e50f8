import type { KubeItem } from './api-server.ts';
import { type IPFamily, nodeAddresses, nodeName } from './clusters.ts';
import { moreAddresses, type Probe } from './wire.ts';

/** The questions about a cluster: each frontend, from each class of source. */
export interface Question {
  /** A Service and its port, or another subject. */
  readonly about: string;
  readonly frontend: string;
  readonly from: string;
  readonly via: Probe['via'];
  readonly family: IPFamily;
  readonly protocol: Probe['protocol'];
  readonly target: string;
  readonly port: number;
  /** At most as many as there are attempts: with fewer, each asks more than once. */
  readonly sources: readonly string[];
  /** True: each source must reach one endpoint only. */
  readonly stays: boolean;
}

interface ServiceItem extends KubeItem {
  readonly spec: {
    readonly clusterIPs: readonly string[];
    readonly ports: readonly {
      readonly name: string;
      readonly protocol: 'TCP' | 'UDP' | 'SCTP';
      readonly port: number;
      readonly nodePort?: number;
    }[];
    readonly externalIPs?: readonly string[];
    readonly healthCheckNodePort?: number;
    readonly sessionAffinity: 'None' | 'ClientIP';
  };
  readonly status: { readonly loadBalancer: { readonly ingress?: readonly { readonly ip?: string }[] } };
}

interface SliceItem extends KubeItem {
  readonly addressType: IPFamily;
  readonly ports: readonly { readonly name: string; readonly port: number }[];
  readonly endpoints: readonly { readonly addresses: readonly string[]; readonly nodeName?: string }[];
}

interface SourceClass {
  readonly from: string;
  readonly via: Probe['via'];
  readonly IPv4: (n: number) => string;
  readonly IPv6: (n: number) => string;
}

/** The number of sources of a class: the last address of the node is the source of masqueraded packets in IPv6. */
const many = moreAddresses - 1;

/** No endpoint has one of them, not that of the fence either: what an endpoint elsewhere sends, its own node treats. */
const sources: readonly SourceClass[] = [
  { from: 'pod here', via: 'pod0', IPv4: (n) => `10.244.1.${151 + n}`, IPv6: (n) => `fd00:10:244:1::1:${n}` },
  { from: 'pod elsewhere', via: 'eth0', IPv4: (n) => `10.244.2.${151 + n}`, IPv6: (n) => `fd00:10:244:2::5:${n}` },
  { from: 'node', via: '', IPv4: (n) => `192.0.2.${101 + n}`, IPv6: (n) => `fd00::1:${n + 1}` },
  {
    from: 'other node',
    via: 'eth0',
    IPv4: (n) => `192.0.2.${n < 10 ? n + 1 : n + 2}`,
    IPv6: (n) => `fd00::2:${n + 1}`,
  },
  { from: 'outside, in range', via: 'eth0', IPv4: (n) => `203.0.113.${1 + n}`, IPv6: (n) => `fd00:203::${n + 1}` },
  { from: 'outside', via: 'eth0', IPv4: (n) => `198.18.0.${1 + n}`, IPv6: (n) => `fd00:18::${n + 1}` },
];

const isService = (item: KubeItem): item is ServiceItem => item.kind === 'Service';
const isSlice = (item: KubeItem): item is SliceItem => item.kind === 'EndpointSlice';
const familyOf = (address: string): IPFamily => (address.includes(':') ? 'IPv6' : 'IPv4');

interface QuestionFrontend extends Pick<Question, 'about' | 'frontend' | 'target' | 'port' | 'protocol' | 'stays'> {
  /** Endpoints of the Service on this node, which are sources, too. */
  readonly local: readonly string[];
}

/** Every question about a cluster. */
export function questionsOf(cluster: readonly KubeItem[]): readonly Question[] {
  const slices = cluster.filter(isSlice);
  const frontends = [
    ...cluster.filter(isService).flatMap((service) => frontendsOf(service, slices)),
    ...nonServices(slices),
  ];
  return frontends.flatMap((frontend) => [
    ...sources.flatMap((source) => ask(frontend, source)),
    ...selfQuestions(frontend),
  ]);
}

function ask({ local: _local, ...frontend }: QuestionFrontend, source: SourceClass): readonly Question[] {
  const family = familyOf(frontend.target);
  if (isLoopback(frontend.target)) return [];
  const { from, via } = source;
  return [{ ...frontend, family, from, via, sources: Array.from({ length: many }, (_, n) => source[family](n)) }];
}

const isLoopback = (address: string): boolean => address.startsWith('127.') || address === '::1';

/** From the node to its loopback addresses, and from an endpoint to its own Service. */
function selfQuestions({ local, ...frontend }: QuestionFrontend): readonly Question[] {
  const family = familyOf(frontend.target);
  if (isLoopback(frontend.target)) {
    const own = family === 'IPv6' ? ['::1'] : Array.from({ length: many }, (_, n) => `127.0.0.${n + 1}`);
    return [{ ...frontend, family, from: 'loopback', via: '', sources: own }];
  }
  const [itself] = local.filter((address) => familyOf(address) === family && !isOfNode(address));
  return itself === undefined ? [] : [{ ...frontend, family, from: 'endpoint itself', via: 'pod0', sources: [itself] }];
}

function frontendsOf(
  { metadata, spec, status }: ServiceItem,
  slices: readonly SliceItem[],
): readonly QuestionFrontend[] {
  const own = slices.filter(({ metadata: { labels } }) => labels?.['kubernetes.io/service-name'] === metadata.name);
  const endpoints = own.flatMap((slice) => slice.endpoints);
  const local = endpoints.filter((endpoint) => endpoint.nodeName === nodeName).flatMap(({ addresses }) => addresses);
  const clusterIPs = spec.clusterIPs.filter((address) => address !== 'None');
  const families = new Set(clusterIPs.map(familyOf));
  const ofFamily = (addresses: readonly string[]): readonly string[] =>
    addresses.filter((address) => families.has(familyOf(address)));
  const kinds: readonly (readonly [string, readonly string[]])[] = [
    ['cluster IP', clusterIPs],
    ['external IP', spec.externalIPs ?? []],
    ['load balancer', (status.loadBalancer.ingress ?? []).flatMap(({ ip }) => ip ?? [])],
  ];
  return spec.ports.flatMap(({ name, protocol: upper, port, nodePort }) => {
    const protocol = upper.toLowerCase() as Probe['protocol'];
    const about = `${metadata.namespace}/${metadata.name}:${name}`;
    const common = { about, protocol, local, stays: spec.sessionAffinity === 'ClientIP' };
    const addresses = kinds.flatMap(([frontend, of]) => of.map((target) => ({ ...common, frontend, target, port })));
    const nodePorts = nodePort === undefined ? [] : ofFamily(nodePortTargets);
    const unassigned = { ...common, frontend: 'unassigned port', port: 4444, stays: false };
    const invalid = { ...common, frontend: 'invalid packet', protocol: 'tcp-rst' as const, port, stays: false };
    return [
      ...addresses,
      ...nodePorts.map((target) => ({ ...common, frontend: nodePortKind(target), target, port: nodePort as number })),
      ...clusterIPs.map((target) => ({ ...unassigned, target })),
      ...(protocol === 'tcp' ? clusterIPs : []).map((target) => ({ ...invalid, target })),
      ...healthCheck(spec.healthCheckNodePort, common),
    ];
  });
}

const nodePortTargets = [nodeAddresses[0], '192.0.2.102', '127.0.0.1', nodeAddresses[1], 'fd00::1:2', '::1'];

const isOfNode = (address: string): boolean => nodeAddresses.some((one) => one === address);

function nodePortKind(target: string): string {
  if (isLoopback(target)) return 'node port, loopback';
  return isOfNode(target) ? 'node port' : 'node port, second address';
}

const healthCheck = (
  port: number | undefined,
  common: Pick<QuestionFrontend, 'about' | 'local'>,
): readonly QuestionFrontend[] =>
  port === undefined
    ? []
    : [{ ...common, frontend: 'health check', protocol: 'tcp', stays: false, target: nodeAddresses[0], port }];

/** Addresses outside of Services: an unallocated cluster IP, an endpoint itself, the node. */
function nonServices(slices: readonly SliceItem[]): readonly QuestionFrontend[] {
  const common = { local: [], protocol: 'tcp', stays: false } as const;
  const [slice] = slices.filter(({ endpoints }) => endpoints.length > 0);
  const endpoint = slice?.endpoints[0]?.addresses[0];
  return [
    { ...common, about: 'no Service', frontend: 'unallocated', target: '10.96.0.250', port: 80 },
    { ...common, about: 'no Service', frontend: 'unallocated', target: 'fd00:10:96::fa', port: 80 },
    { ...common, about: 'no Service', frontend: 'node', target: nodeAddresses[0], port: 29_999 },
    { ...common, about: 'no Service', frontend: 'node', target: nodeAddresses[1], port: 29_999 },
    ...(endpoint === undefined
      ? []
      : [{ ...common, about: 'no Service', frontend: 'endpoint', target: endpoint, port: slice?.ports[0]?.port ?? 0 }]),
  ];
}
