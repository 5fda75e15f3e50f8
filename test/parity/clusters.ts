import { pick } from '../review/mutate.ts';
import type { KubeItem } from './api-server.ts';

/**
 * Clusters by chance, each object as an API server stores it, with every default written out: kube-proxy reads nothing else, and defaults
 * nothing itself.
 */

export const nodeName = 'node-1';
export const nodeAddresses = ['192.0.2.11', 'fd00::11'] as const;
export const clusterCIDR = ['10.244.0.0/16', 'fd00:10:244::/48'] as const;

export type Family = 'IPv4' | 'IPv6';
type Random = () => number;

const chance = (share: number, random: Random): boolean => random() < share;
const upTo = (most: number, random: Random): number => Math.floor(random() * (most + 1));

const nodes: readonly KubeItem[] = ['node-1', 'node-2'].map((name, index) => ({
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

/** @param services how many */
export function clusterOf(services: number, random: Random): readonly KubeItem[] {
  return [...nodes, ...Array.from({ length: services }, (_, index) => serviceWithSlices(index, random)).flat()];
}

function serviceWithSlices(index: number, random: Random): readonly KubeItem[] {
  const name = `s${index}`;
  const families: readonly Family[] = pick([['IPv4'], ['IPv4'], ['IPv6'], ['IPv4', 'IPv6'], ['IPv6', 'IPv4']], random);
  const ports = portsOf(index, random);
  const service = serviceOf({ name, index, families, ports }, random);
  const slices = families.map((family) => sliceOf({ name, index, family, ports }, random));
  return [service, ...slices];
}

interface Port {
  readonly name: string;
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  readonly port: number;
  readonly targetPort: number;
  readonly nodePort: number;
}

function portsOf(index: number, random: Random): readonly Port[] {
  return Array.from({ length: 1 + upTo(1, random) }, (_, n) => ({
    name: pick(['http', 'dns', 'metrics-x'], random) + n,
    protocol: pick(['TCP', 'TCP', 'UDP', 'SCTP'], random),
    port: 80 + n,
    targetPort: 8080 + n,
    nodePort: 30_000 + 10 * index + n,
  }));
}

interface Draft {
  readonly name: string;
  readonly index: number;
  readonly families: readonly Family[];
  readonly ports: readonly Port[];
}

function serviceOf({ name, index, families, ports }: Draft, random: Random): KubeItem {
  const type = pick(['ClusterIP', 'ClusterIP', 'NodePort', 'LoadBalancer', 'LoadBalancer'], random);
  const isExternal = type !== 'ClusterIP';
  const isBalanced = type === 'LoadBalancer';
  const clusterIPs = families.map((family) =>
    family === 'IPv4' ? `10.96.0.${10 + index}` : `fd00:10:96::${10 + index}`,
  );
  const affinity = chance(0.25, random);
  const externalTrafficPolicy = pick(['Cluster', 'Local'], random);
  const hasExternalIPs = chance(0.2, random);
  const external = (n: number): readonly string[] =>
    families.map((family) => (family === 'IPv4' ? `198.51.100.${n + index}` : `fd00:51::${n + index}`));
  const spec = {
    type,
    clusterIP: clusterIPs[0],
    clusterIPs,
    ipFamilies: families,
    ipFamilyPolicy: families.length > 1 ? 'RequireDualStack' : 'SingleStack',
    selector: { app: name },
    ports: ports.map(({ nodePort, ...port }) => ({ ...port, ...(isExternal ? { nodePort } : {}) })),
    sessionAffinity: affinity ? 'ClientIP' : 'None',
    ...(affinity ? { sessionAffinityConfig: { clientIP: { timeoutSeconds: pick([10, 10_800], random) } } } : {}),
    internalTrafficPolicy: chance(0.2, random) ? 'Local' : 'Cluster',
    ...(isExternal || hasExternalIPs ? { externalTrafficPolicy: isExternal ? externalTrafficPolicy : 'Cluster' } : {}),
    ...(isBalanced && externalTrafficPolicy === 'Local' ? { healthCheckNodePort: 32_000 + index } : {}),
    ...(hasExternalIPs ? { externalIPs: external(1) } : {}),
    ...(isBalanced ? { allocateLoadBalancerNodePorts: true } : {}),
    ...(isBalanced && chance(0.5, random) ? { loadBalancerSourceRanges: sourceRanges(families, random) } : {}),
  };
  const ingress = isBalanced && chance(0.8, random) ? external(101).map((ip) => ({ ip, ipMode: 'VIP' })) : [];
  const item = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'shop' },
    spec,
    status: { loadBalancer: ingress.length === 0 ? {} : { ingress } },
  };
  return item;
}

const sourceRanges = (families: readonly Family[], random: Random): readonly string[] =>
  families.flatMap((family) =>
    family === 'IPv4' ? ['203.0.113.0/24', ...(chance(0.5, random) ? ['192.0.2.0/24'] : [])] : ['fd00:203::/32'],
  );

function sliceOf(
  { name, index, family, ports }: Omit<Draft, 'families'> & { readonly family: Family },
  random: Random,
): KubeItem {
  const endpoints = Array.from({ length: pick([0, 1, 2, 3, 4], random) }, (_, n) => {
    const node = 1 + upTo(1, random);
    const host = 10 * (index + 1) + n;
    const isTerminating = chance(0.2, random);
    const isReady = !isTerminating && chance(0.85, random);
    return {
      addresses: [family === 'IPv4' ? `10.244.${node}.${host % 250}` : `fd00:10:244:${node}::${host}`],
      conditions: {
        ready: isReady,
        serving: isReady || (isTerminating && chance(0.6, random)),
        terminating: isTerminating,
      },
      nodeName: `node-${node}`,
      zone: `zone-${node - 1}`,
    };
  });
  const item = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: `${name}-${family.toLowerCase()}`,
      namespace: 'shop',
      labels: {
        'kubernetes.io/service-name': name,
        'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
      },
    },
    addressType: family,
    ports: ports.map(({ name: portName, protocol, targetPort }) => ({ name: portName, protocol, port: targetPort })),
    endpoints,
  };
  return item;
}
