/** Synthetic clusters for the benchmarks: the same arguments give the same bytes. */
export interface ClusterShape {
  readonly services: number;
  readonly endpointsPerService: number;
  readonly nodes: number;
}

type JsonItem = Record<string, unknown>;

const namespaces = 50;
const podAddress = (n: number): string => `10.${128 + (n >> 16)}.${(n >> 8) & 255}.${n & 255}`;
const serviceAddress = (n: number): string =>
  `10.${96 + ((n + 256) >> 16)}.${((n + 256) >> 8) & 255}.${(n + 256) & 255}`;

/** A `kind: List` with Nodes, Services and one EndpointSlice per Service, as `kubectl get -o json` prints it. */
export function clusterList(shape: ClusterShape): { apiVersion: string; kind: string; items: JsonItem[] } {
  const items: JsonItem[] = [];
  for (let n = 0; n < shape.nodes; n++) items.push(node(n));
  for (let n = 0; n < shape.services; n++) {
    items.push(service(n));
    items.push(slice(n, shape));
  }
  return { apiVersion: 'v1', kind: 'List', items };
}

const nodeName = (n: number): string => `node-${String(n).padStart(4, '0')}`;

function node(n: number): JsonItem {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: nodeName(n), labels: { 'topology.kubernetes.io/zone': `zone-${n % 3}` } },
    spec: { podCIDR: `10.244.${n & 255}.0/24`, podCIDRs: [`10.244.${n & 255}.0/24`] },
    status: { capacity: { cpu: '8' }, addresses: [{ type: 'InternalIP', address: `192.168.${n >> 8}.${n & 255}` }] },
  };
}

function service(n: number): JsonItem {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: `svc-${n}`, namespace: `ns-${n % namespaces}`, labels: { app: `app-${n}` } },
    spec: {
      type: 'ClusterIP',
      clusterIP: serviceAddress(n),
      clusterIPs: [serviceAddress(n)],
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
      internalTrafficPolicy: 'Cluster',
      sessionAffinity: 'None',
      selector: { app: `app-${n}` },
      ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 8080 }],
    },
    status: { loadBalancer: {} },
  };
}

function slice(n: number, shape: ClusterShape): JsonItem {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: `svc-${n}-abcde`,
      namespace: `ns-${n % namespaces}`,
      labels: { 'kubernetes.io/service-name': `svc-${n}`, app: `app-${n}` },
    },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    endpoints: Array.from({ length: shape.endpointsPerService }, (_, k) => {
      const id = n * shape.endpointsPerService + k;
      const on = id % shape.nodes;
      return {
        addresses: [podAddress(id)],
        conditions: { ready: true, serving: true, terminating: false },
        nodeName: nodeName(on),
        zone: `zone-${on % 3}`,
      };
    }),
  };
}

/** A DaemonSet behind a Service with Local policies: one endpoint on every node. */
export function daemonSet(nodes: number): JsonItem[] {
  const daemon = service(0) as { metadata: JsonItem; spec: JsonItem };
  const spread = slice(0, { services: 1, endpointsPerService: nodes, nodes }) as {
    metadata: JsonItem;
    endpoints: JsonItem[];
  };
  Object.assign(daemon.metadata, { name: 'dns', namespace: 'kube-system' });
  Object.assign(daemon.spec, { clusterIP: '10.111.0.10', clusterIPs: ['10.111.0.10'], internalTrafficPolicy: 'Local' });
  Object.assign(spread.metadata, {
    name: 'dns-abcde',
    namespace: 'kube-system',
    labels: { 'kubernetes.io/service-name': 'dns' },
  });
  spread.endpoints = spread.endpoints.map((endpoint, n) => ({
    ...endpoint,
    addresses: [`10.200.${n >> 8}.${n & 255}`],
  }));
  return [daemon, spread];
}
