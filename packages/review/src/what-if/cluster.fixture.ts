import type { BundleFiles } from '@sluice/bundle';
import { filesOf } from '../policy/bundle.fixture.ts';

export interface SampleNode {
  /** Its address is 192.0.2.(number), its pods are in 10.244.(number).0/24. */
  readonly number: number;
  readonly zone: string;
}

export interface SampleEndpoint {
  readonly address: string;
  /** The number of its node; absent: unknown. */
  readonly node?: number;
  readonly zone?: string;
  readonly state?: 'ready' | 'not ready' | 'terminating';
  readonly hintZones?: readonly string[];
  readonly hintNodes?: readonly number[];
}

export interface SampleService {
  readonly name: string;
  readonly clusterIP: string;
  readonly nodePort: number;
  readonly internal?: 'Cluster' | 'Local';
  readonly external?: 'Cluster' | 'Local';
  readonly endpoints: readonly SampleEndpoint[];
}

export const nameOfNode = (number: number): string => `node-${number}`;

/** The bundle of some Services with a node port, on these nodes. @throws Error with the first problem of the input */
export function sampleBundle(
  nodes: readonly SampleNode[],
  services: readonly SampleService[],
  mode: 'iptables' | 'nftables' = 'iptables',
  rest: object = {},
): BundleFiles {
  const list = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: services.flatMap(objectsOf) });
  const config = {
    apiVersion: 'sluice.dev/v1alpha1',
    kind: 'SluiceConfig',
    nodes: nodes.map(({ number, zone }) => ({
      name: nameOfNode(number),
      addresses: [`192.0.2.${number}`],
      podCIDRs: [`10.244.${number}.0/24`],
      cores: 4,
      labels: { 'topology.kubernetes.io/zone': zone },
    })),
    profiles: [{ name: 'default', mode, clusterCIDR: '10.244.0.0/16', ...rest }],
  };
  return filesOf(list, JSON.stringify(config));
}

function objectsOf({ name, clusterIP, nodePort, internal, external, endpoints }: SampleService): readonly object[] {
  const metadata = { name, namespace: 'shop' };
  return [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata,
      spec: {
        type: 'NodePort',
        clusterIP,
        internalTrafficPolicy: internal ?? 'Cluster',
        externalTrafficPolicy: external ?? 'Cluster',
        ports: [{ name: 'http', port: 80, targetPort: 8080, nodePort }],
      },
    },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { ...metadata, labels: { 'kubernetes.io/service-name': name } },
      addressType: 'IPv4',
      ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
      endpoints: endpoints.map(endpointOf),
    },
  ];
}

function endpointOf({ address, node, zone, state = 'ready', hintZones = [], hintNodes = [] }: SampleEndpoint): object {
  const hints = {
    ...(hintZones.length === 0 ? {} : { forZones: hintZones.map((name) => ({ name })) }),
    ...(hintNodes.length === 0 ? {} : { forNodes: hintNodes.map((number) => ({ name: nameOfNode(number) })) }),
  };
  return {
    addresses: [address],
    conditions: { ready: state === 'ready', serving: state !== 'not ready', terminating: state === 'terminating' },
    ...(node === undefined ? {} : { nodeName: nameOfNode(node) }),
    ...(zone === undefined ? {} : { zone }),
    ...(Object.keys(hints).length === 0 ? {} : { hints }),
  };
}
