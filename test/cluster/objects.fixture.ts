import type { ApiObject } from './apiserver.fixture.ts';

/** A Service shop/<name> as an API server returns it, with fields that Sluice ignores. */
export const serviceOf = (name: string, host: number): ApiObject => ({
  metadata: { name, namespace: 'shop', uid: 'u', resourceVersion: '3', managedFields: [], annotations: { other: 'x' } },
  spec: { clusterIP: `10.96.0.${host}`, clusterIPs: [`10.96.0.${host}`], ports: [{ port: 80, protocol: 'TCP' }] },
  status: { loadBalancer: {} },
});

/** One endpoint of shop/a on node-a. */
export const slice: ApiObject = {
  metadata: { name: 'a-1', namespace: 'shop', labels: { 'kubernetes.io/service-name': 'a' } },
  addressType: 'IPv4',
  endpoints: [{ addresses: ['10.244.1.5'], conditions: { ready: true }, nodeName: 'node-a' }],
  ports: [{ name: '', port: 8080, protocol: 'TCP' }],
};

/** The same endpoint in a cluster without slices. */
export const endpoints: ApiObject = {
  metadata: { name: 'a', namespace: 'shop' },
  subsets: [{ addresses: [{ ip: '10.244.1.5', nodeName: 'node-a' }], ports: [{ port: 8080, protocol: 'TCP' }] }],
};

export const node: ApiObject = {
  metadata: { name: 'node-a', labels: {} },
  spec: { podCIDR: '10.244.1.0/24', podCIDRs: ['10.244.1.0/24'] },
  status: {
    addresses: [{ type: 'InternalIP', address: '192.0.2.1' }],
    capacity: { cpu: '4', memory: '1' },
    conditions: [{}],
  },
};

/** A ServiceCIDR as an API server returns it. */
export const serviceCIDROf = (name: string, ...cidrs: readonly string[]): ApiObject => ({
  metadata: { name, uid: 'u', finalizers: ['networking.k8s.io/service-cidr-finalizer'] },
  spec: { cidrs },
  status: { conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: '2026-01-02T03:04:05Z' }] },
});
