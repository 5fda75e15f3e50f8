import { hintsKeys, schedulerKey, tableSizeKey, weightsKey } from '../../render/read/annotations.ts';
import type { Sort } from './names.ts';

/**
 * How a value is redacted: kept, or replaced as an address or as a name of a sort; `labels` is a map of keys and values, `target` a port's
 * number or name; `weights` is a structured string, `configs` a map of texts with kube-proxy's configuration, `hints` are enabled or disabled.
 */
export type Leaf = 'keep' | 'address' | 'labels' | 'target' | 'weights' | 'hints' | 'configs' | Sort;
/** Fields that are not in a shape are left out: new fields of Kubernetes must not leak. */
export type Shape = Leaf | { readonly [field: string]: Shape };

const named = (sort: Sort): Exclude<Shape, Leaf> => ({
  name: sort,
  namespace: 'namespace',
  labels: 'labels',
  annotations: {
    [schedulerKey]: 'keep',
    [tableSizeKey]: 'keep',
    [weightsKey]: 'weights',
    [hintsKeys[0]]: 'hints',
    [hintsKeys[1]]: 'hints',
    // Those of providers may name customers.
    'service.beta.kubernetes.io/load-balancer-source-ranges': 'address',
  },
  creationTimestamp: 'keep',
});
const typed = { apiVersion: 'keep', kind: 'keep' } as const;

const servicePort = {
  name: 'port',
  protocol: 'keep',
  port: 'keep',
  nodePort: 'keep',
  targetPort: 'target',
  appProtocol: 'keep',
} as const;

const subsetAddress = { ip: 'address', nodeName: 'node' } as const;

const period = { minSyncPeriod: 'keep', syncPeriod: 'keep' } as const;
const masquerade = { masqueradeAll: 'keep', masqueradeBit: 'keep', localhostNodePorts: 'keep', ...period } as const;

/** kube-proxy's configuration, inside its ConfigMap. */
export const kubeProxyShape: Shape = {
  ...typed,
  featureGates: { AllowServiceExternalIPs: 'keep', KubeProxyNFTablesLocalhostNodePorts: 'keep' },
  mode: 'keep',
  iptables: masquerade,
  nftables: masquerade,
  ipvs: {
    ...period,
    scheduler: 'keep',
    excludeCIDRs: 'address',
    strictARP: 'keep',
    tcpTimeout: 'keep',
    tcpFinTimeout: 'keep',
    udpTimeout: 'keep',
  },
  clusterCIDR: 'address',
  detectLocalMode: 'keep',
  detectLocal: { bridgeInterface: 'keep', interfaceNamePrefix: 'keep', clusterCIDRs: 'address' },
  nodePortAddresses: 'address',
  conntrack: {
    maxPerCore: 'keep',
    min: 'keep',
    tcpEstablishedTimeout: 'keep',
    tcpCloseWaitTimeout: 'keep',
    tcpBeLiberal: 'keep',
    udpTimeout: 'keep',
    udpStreamTimeout: 'keep',
  },
};

/** The shapes of all objects of a snapshot, by resource. */
export const shapes: Readonly<Record<string, Shape>> = {
  services: {
    ...typed,
    metadata: named('service'),
    spec: {
      type: 'keep',
      clusterIP: 'address',
      clusterIPs: 'address',
      ipFamilies: 'keep',
      ipFamilyPolicy: 'keep',
      ports: servicePort,
      selector: 'labels',
      externalIPs: 'address',
      externalName: 'host',
      externalTrafficPolicy: 'keep',
      internalTrafficPolicy: 'keep',
      trafficDistribution: 'keep',
      allocateLoadBalancerNodePorts: 'keep',
      healthCheckNodePort: 'keep',
      loadBalancerIP: 'address',
      loadBalancerClass: 'class',
      loadBalancerSourceRanges: 'address',
      publishNotReadyAddresses: 'keep',
      sessionAffinity: 'keep',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 'keep' } },
    },
    status: { loadBalancer: { ingress: { ip: 'address', hostname: 'host', ipMode: 'keep' } } },
  },
  endpointslices: {
    ...typed,
    metadata: named('slice'),
    addressType: 'keep',
    endpoints: {
      addresses: 'address',
      conditions: { ready: 'keep', serving: 'keep', terminating: 'keep' },
      nodeName: 'node',
      zone: 'zone',
      hints: { forZones: { name: 'zone' }, forNodes: { name: 'node' } },
    },
    ports: { name: 'port', protocol: 'keep', port: 'keep', appProtocol: 'keep' },
  },
  endpoints: {
    ...typed,
    metadata: named('service'),
    subsets: {
      addresses: subsetAddress,
      notReadyAddresses: subsetAddress,
      ports: { name: 'port', protocol: 'keep', port: 'keep', appProtocol: 'keep' },
    },
  },
  nodes: {
    ...typed,
    metadata: named('node'),
    spec: { podCIDR: 'address', podCIDRs: 'address', unschedulable: 'keep' },
    status: { addresses: { type: 'keep', address: 'address' }, capacity: { cpu: 'keep' } },
  },
  servicecidrs: {
    ...typed,
    metadata: { ...named('range'), deletionTimestamp: 'keep' },
    spec: { cidrs: 'address' },
    status: { conditions: { type: 'keep', status: 'keep' } },
  },
  configmaps: {
    ...typed,
    metadata: { name: 'config', namespace: 'keep', creationTimestamp: 'keep' },
    data: 'configs',
  },
};

/** Labels that affect rules, with the kind of their values. */
export const knownLabels: Readonly<Record<string, Leaf>> = {
  'kubernetes.io/service-name': 'service',
  'service.kubernetes.io/service-proxy-name': 'class',
  'service.kubernetes.io/headless': 'keep',
  'endpoints.kubernetes.io/managed-by': 'keep',
  'endpointslice.kubernetes.io/managed-by': 'keep',
  'topology.kubernetes.io/zone': 'zone',
  'topology.kubernetes.io/region': 'zone',
  'kubernetes.io/hostname': 'node',
  'kubernetes.io/os': 'keep',
  'kubernetes.io/arch': 'keep',
};
