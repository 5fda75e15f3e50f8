import type { KubeItem } from './api-server.ts';

/** A Service of type ClusterIP with one port, in both families, and ready endpoints on one node. */
export interface PlainService {
  readonly namespace: string;
  readonly name: string;
  readonly clusterIPs: readonly [ipv4: string, ipv6: string];
  readonly port: {
    readonly name: string;
    readonly port: number;
    readonly targetPort: number;
    /** By default TCP. */
    readonly protocol?: 'TCP' | 'UDP';
  };
  readonly endpoints: { readonly IPv4: readonly string[]; readonly IPv6: readonly string[] };
  readonly nodeName: string;
  readonly zone: string;
}

/** The Service, and a slice for each family. */
export function plainService({
  namespace,
  name,
  clusterIPs,
  port,
  endpoints,
  nodeName,
  zone,
}: PlainService): readonly KubeItem[] {
  const { targetPort, protocol = 'TCP', ...own } = port;
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace },
    spec: {
      type: 'ClusterIP',
      clusterIP: clusterIPs[0],
      clusterIPs,
      ipFamilies: ['IPv4', 'IPv6'],
      ipFamilyPolicy: 'RequireDualStack',
      ports: [{ ...own, protocol, targetPort }],
      sessionAffinity: 'None',
      internalTrafficPolicy: 'Cluster',
    },
    status: { loadBalancer: {} },
  };
  const slices = (['IPv4', 'IPv6'] as const).map((addressType) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: `${name}-${addressType.toLowerCase()}`,
      namespace,
      labels: { 'kubernetes.io/service-name': name },
    },
    addressType,
    ports: [{ name: port.name, protocol, port: targetPort }],
    endpoints: endpoints[addressType].map((address) => ({
      addresses: [address],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName,
      zone,
    })),
  }));
  return [service, ...slices];
}
