/** A cluster of two families in which every Service changes, each in another way: what a review has to say of many at once. */

interface Stall {
  readonly spec?: Readonly<Record<string, unknown>>;
  /** The last number of the address of each endpoint. */
  readonly endpoints: readonly number[];
  readonly balancer?: boolean;
}

const both: readonly number[] = [1, 2];
const local = { type: 'NodePort', externalTrafficPolicy: 'Local' };

/** Before and after. Without a side the Service is not there. */
const changes: readonly (readonly [Stall | undefined, Stall | undefined])[] = [
  [{ endpoints: both }, { endpoints: [] }],
  [{ endpoints: both }, { endpoints: both, spec: { type: 'NodePort' } }],
  [
    { endpoints: both, spec: local },
    { endpoints: both, spec: { ...local, externalTrafficPolicy: 'Cluster' } },
  ],
  [{ endpoints: both, spec: { sessionAffinity: 'ClientIP' } }, { endpoints: both }],
  [{ endpoints: both }, { endpoints: [1, 3] }],
  [
    { endpoints: both, balancer: true, spec: { type: 'LoadBalancer', loadBalancerSourceRanges: ['198.51.100.0/24'] } },
    { endpoints: both, balancer: true, spec: { type: 'LoadBalancer' } },
  ],
  [{ endpoints: both }, undefined],
  [undefined, { endpoints: both }],
];

const balanced = (at: number): readonly string[] => [
  `203.0.${at >> 8}.${at & 255}`,
  `2001:db8:ffff::${at.toString(16)}`,
];

/** @returns a list of objects, for one file of manifests */
export function manyServices(count: number, side: 'before' | 'after'): string {
  const items = Array.from({ length: count }, (_, at) => {
    const stall = changes[at % changes.length]![side === 'before' ? 0 : 1];
    return stall === undefined ? [] : objectsOf(at, stall);
  });
  return JSON.stringify({ apiVersion: 'v1', kind: 'List', items: items.flat() });
}

function objectsOf(at: number, { spec = {}, endpoints, balancer = false }: Stall): readonly object[] {
  const name = `orders-frontend-${at}`;
  const namespace = `team-${at % 7}`;
  const nodePort = spec['type'] === undefined ? {} : { nodePort: 30_000 + at };
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace },
    spec: {
      clusterIPs: [`10.96.${1 + (at >> 8)}.${at & 255}`, `fd00:96::${(at + 256).toString(16)}`],
      ipFamilies: ['IPv4', 'IPv6'],
      ipFamilyPolicy: 'RequireDualStack',
      selector: { app: name },
      ...spec,
      ports: [{ name: 'http', port: 80, targetPort: 8080, ...nodePort }],
    },
    status: { loadBalancer: balancer ? { ingress: balanced(at).map((ip) => ({ ip })) } : {} },
  };
  const slice = (family: 'IPv4' | 'IPv6'): object => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: `${name}-${family.toLowerCase()}`, namespace, labels: { 'kubernetes.io/service-name': name } },
    addressType: family,
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    endpoints: endpoints.map((node) => ({
      addresses: [family === 'IPv4' ? `10.244.${node}.${at % 250}` : `fd00:244:${node}::${at.toString(16)}`],
      nodeName: `node-${node}`,
      conditions: { ready: true },
    })),
  });
  return [service, slice('IPv4'), slice('IPv6')];
}

/** The config of the cluster: a policy, budgets that hold, and three nodes of both families. */
export const manyServicesConfig = `apiVersion: sluice.dev/v1alpha1
kind: SluiceConfig
complete: true
serviceCIDRs: [10.96.0.0/16, 'fd00:96::/112']
nodePortRange: 30000-32767
nodes:
${[1, 2, 3].map((n) => `  - { name: node-${n}, addresses: [192.0.2.1${n}, '2001:db8::${n}'], podCIDRs: [10.244.${n}.0/24, 'fd00:244:${n}::/64'] }\n`).join('')}profiles:
  - { name: default, clusterCIDR: '10.244.0.0/16,fd00:244::/32' }
budgets: { rules: 50000 }
`;
