import { pick } from '../review/mutate.ts';
import type { KubeItem } from './api-server.ts';

/**
 * Random clusters, each object as an API server stores it, with all defaults: kube-proxy reads only that, and sets no defaults
 * itself.
 */

export const nodeName = 'node-1';
export const nodeAddresses = ['192.0.2.11', 'fd00::11'] as const;
export const clusterCIDR = ['10.244.0.0/16', 'fd00:10:244::/48'] as const;

export type IPFamily = 'IPv4' | 'IPv6';
type Random = () => number;

const chance = (share: number, random: Random): boolean => random() < share;
const upTo = (most: number, random: Random): number => Math.floor(random() * (most + 1));

export const nodes: readonly KubeItem[] = ['node-1', 'node-2'].map((name, index) => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name, labels: { 'kubernetes.io/hostname': name, 'topology.kubernetes.io/zone': `zone-${index}` } },
  spec: {
    podCIDR: `10.244.${index + 1}.0/24`,
    podCIDRs: [`10.244.${index + 1}.0/24`, `fd00:10:244:${index + 1}::/64`],
  },
  status: {
    addresses: [
      { type: 'InternalIP', address: `192.0.2.${11 + index}` },
      { type: 'InternalIP', address: `fd00::${11 + index}` },
    ],
  },
}));

/** A Service and its slices, and its properties that survive a change. */
interface DrawnService {
  readonly draft: Draft;
  readonly service: KubeItem;
  readonly slices: readonly KubeItem[];
}

export type DrawnCluster = readonly DrawnService[];

/** @param services at most 12, or addresses collide with those of clients */
export function drawCluster(services: number, random: Random): DrawnCluster {
  return Array.from({ length: services }, (_, index) => {
    const families: readonly IPFamily[] = pick(
      [['IPv4'], ['IPv4'], ['IPv6'], ['IPv4', 'IPv6'], ['IPv6', 'IPv4']],
      random,
    );
    const draft = { name: `s${index}`, index, families, ports: portsOf(index, random) };
    return { draft, service: serviceOf(draft, random), slices: slicesOf(draft, random) };
  });
}

/** A random change of a cluster: endpoints of three Services are added and removed, and some of these Services change their type and all other fields. */
export function redraw(cluster: DrawnCluster, random: Random): DrawnCluster {
  const chosen = new Set(Array.from({ length: 3 }, () => upTo(cluster.length - 1, random)));
  return cluster.map((drawn, at) => {
    if (!chosen.has(at)) return drawn;
    const { draft } = drawn;
    const service = chance(0.4, random) ? serviceOf(draft, random) : drawn.service;
    return { draft, service, slices: slicesOf(draft, random) };
  });
}

export const itemsOf = (cluster: DrawnCluster): readonly KubeItem[] => [
  ...nodes,
  ...cluster.flatMap(({ service, slices }) => [service, ...slices]),
];

/** A Service without `/0` among its source ranges; other objects unchanged. */
export function withoutOpenRange(item: KubeItem): KubeItem {
  const { spec } = item as { readonly spec?: { readonly loadBalancerSourceRanges?: readonly string[] } };
  const ranges = spec?.loadBalancerSourceRanges?.filter((range) => !range.endsWith('/0'));
  return ranges === undefined ? item : ({ ...item, spec: { ...spec, loadBalancerSourceRanges: ranges } } as KubeItem);
}

interface Port {
  readonly name: string;
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  readonly port: number;
  readonly targetPort: number;
  readonly nodePort: number;
}

function portsOf(index: number, random: Random): readonly Port[] {
  const count = 1 + upTo(1, random);
  const isOneNumber = chance(0.2, random);
  return Array.from({ length: count }, (_, n) => ({
    name: count === 1 && chance(0.3, random) ? '' : pick(['http', 'dns', 'metrics-x'], random) + n,
    protocol: isOneNumber && n === 1 ? 'UDP' : isOneNumber ? 'TCP' : pick(['TCP', 'TCP', 'UDP', 'SCTP'], random),
    port: isOneNumber ? 80 : 80 + n,
    targetPort: 8080 + n,
    nodePort: 30_000 + 10 * index + n,
  }));
}

interface Draft {
  readonly name: string;
  readonly index: number;
  readonly families: readonly IPFamily[];
  readonly ports: readonly Port[];
}

const oddLabels: readonly Readonly<Record<string, string>>[] = [
  { 'service.kubernetes.io/headless': '' },
  { 'service.kubernetes.io/service-proxy-name': 'other' },
  { 'app.kubernetes.io/name': 'x' },
];

const labelsOf = (random: Random): Readonly<Record<string, string>> =>
  chance(0.15, random) ? pick(oddLabels, random) : {};

function serviceOf(draft: Draft, random: Random): KubeItem {
  const { name, families } = draft;
  const labels = labelsOf(random);
  const type = pick(['ClusterIP', 'ClusterIP', 'NodePort', 'NodePort', 'LoadBalancer', 'LoadBalancer'], random);
  const isHeadless = type === 'ClusterIP' && chance(0.1, random);
  const ingress = type === 'LoadBalancer' && chance(0.85, random) ? ingressOf(draft, random) : [];
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'shop', labels },
    spec: {
      type,
      ...addressesOf(draft, isHeadless, random),
      ipFamilies: families,
      ipFamilyPolicy: families.length > 1 ? 'RequireDualStack' : 'SingleStack',
      selector: { app: name },
      ...policiesOf(draft, type, random),
      ...affinityOf(random),
      ...(chance(0.3, random)
        ? { trafficDistribution: pick(['PreferClose', 'PreferSameZone', 'PreferSameNode'], random) }
        : {}),
    },
    status: { loadBalancer: ingress.length === 0 ? {} : { ingress } },
  } as KubeItem;
}

const outer = (draft: Draft, n: number): readonly string[] =>
  draft.families.map((family) => (family === 'IPv4' ? `198.51.100.${n + draft.index}` : `fd00:51::${n + draft.index}`));

function ingressOf(draft: Draft, random: Random): readonly object[] {
  const ipMode = chance(0.15, random) ? 'Proxy' : 'VIP';
  const hostname = chance(0.1, random) ? [{ hostname: 'lb.example' }] : [];
  return [...outer(draft, 101).map((ip) => ({ ip, ipMode })), ...hostname];
}

function addressesOf({ index, families }: Draft, isHeadless: boolean, random: Random): object {
  if (isHeadless) return { clusterIP: 'None', clusterIPs: ['None'] };
  const clusterIPs = families.map((family) =>
    family === 'IPv4' ? `10.96.0.${10 + index}` : `fd00:10:96::${10 + index}`,
  );
  const externalIPs = outer({ name: '', index, families, ports: [] }, 1);
  return { clusterIP: clusterIPs[0], clusterIPs, ...(chance(0.25, random) ? { externalIPs } : {}) };
}

function policiesOf({ index, families, ports }: Draft, type: string, random: Random): object {
  const isExternal = type !== 'ClusterIP';
  const isBalanced = type === 'LoadBalancer';
  const externalTrafficPolicy = isExternal ? pick(['Cluster', 'Local'], random) : 'Cluster';
  const hasNodePorts = isExternal && !(isBalanced && chance(0.2, random));
  const hasRanges = isBalanced && chance(0.5, random);
  return {
    ports: ports.map(({ nodePort, ...port }) => ({ ...port, ...(hasNodePorts ? { nodePort } : {}) })),
    internalTrafficPolicy: chance(0.2, random) ? 'Local' : 'Cluster',
    externalTrafficPolicy,
    ...(isBalanced ? { allocateLoadBalancerNodePorts: hasNodePorts } : {}),
    ...(isBalanced && externalTrafficPolicy === 'Local' ? { healthCheckNodePort: 32_000 + index } : {}),
    ...(hasRanges ? { loadBalancerSourceRanges: sourceRanges(families, random) } : {}),
  };
}

function affinityOf(random: Random): object {
  if (chance(0.75, random)) return { sessionAffinity: 'None' };
  return {
    sessionAffinity: 'ClientIP',
    sessionAffinityConfig: { clientIP: { timeoutSeconds: pick([60, 10_800], random) } },
  };
}

function sourceRanges(families: readonly IPFamily[], random: Random): readonly string[] {
  const all = families.flatMap((family) =>
    family === 'IPv4' ? ['203.0.113.0/24', ...(chance(0.5, random) ? ['192.0.2.0/24'] : [])] : ['fd00:203::/32'],
  );
  if (!chance(0.15, random)) return all;
  return [...all, families[0] === 'IPv4' ? '0.0.0.0/0' : '::/0'];
}

/** One slice for a family, sometimes two: the second with another number for its ports, and with endpoints that are also in the first. */
function slicesOf(draft: Draft, random: Random): readonly KubeItem[] {
  return draft.families.flatMap((family) => {
    const first = sliceOf({ draft, family, at: 0 }, random);
    return chance(0.15, random) ? [first, sliceOf({ draft, family, at: 1 }, random)] : [first];
  });
}

interface SliceDraft {
  readonly draft: Draft;
  readonly family: IPFamily;
  /** The number of the slice within its family. */
  readonly at: number;
}

function sliceOf({ draft, family, at }: SliceDraft, random: Random): KubeItem {
  const { name, ports } = draft;
  const hint = chance(0.3, random) ? pick(['forZones', 'forNodes', 'both'] as const, random) : undefined;
  const endpoints = Array.from({ length: pick([0, 1, 2, 3, 4], random) }, (_, n) => {
    const isGap = chance(0.1, random);
    return { ...endpointOf({ draft, family, at }, n, random), ...(isGap ? {} : hintsOf(hint, random)) };
  });
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: `${name}-${family.toLowerCase()}-${at}`,
      namespace: 'shop',
      labels: {
        ...labelsOf(random),
        'kubernetes.io/service-name': name,
        'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
      },
    },
    addressType: family,
    ports: ports.map(({ name: port, protocol, targetPort }) => ({
      name: port,
      protocol,
      port: targetPort + 1000 * at,
    })),
    endpoints,
  } as KubeItem;
}

function hintsOf(hint: 'forZones' | 'forNodes' | 'both' | undefined, random: Random): object {
  if (hint === undefined) return {};
  const of = (word: string): readonly object[] => [{ name: `${word}-${upTo(1, random) + (word === 'node' ? 1 : 0)}` }];
  return {
    hints: {
      ...(hint === 'forNodes' ? {} : { forZones: of('zone') }),
      ...(hint === 'forZones' ? {} : { forNodes: of('node') }),
    },
  };
}

function endpointOf({ draft, family }: SliceDraft, n: number, random: Random): object {
  const node = 1 + upTo(1, random);
  const host = 10 * (draft.index + 1) + n;
  const isOfHost = chance(0.05, random);
  const isTerminating = chance(0.2, random);
  const isReady = !isTerminating && chance(0.85, random);
  const [pod, own] =
    family === 'IPv4'
      ? [`10.244.${node}.${host}`, `192.0.2.${10 + node}`]
      : [`fd00:10:244:${node}::${host}`, `fd00::${10 + node}`];
  return {
    addresses: [isOfHost ? own : pod],
    conditions: {
      ready: isReady,
      serving: isReady || (isTerminating && chance(0.6, random)),
      terminating: isTerminating,
    },
    ...(chance(0.05, random) ? {} : { nodeName: `node-${node}` }),
    zone: `zone-${node - 1}`,
  };
}
