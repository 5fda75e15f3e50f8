import type { Input } from './cluster.ts';

/** A Service's endpoint of IPv6, and what the cluster needs for its addresses. */
export const dualStack: Input = {
  more: [
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name: 'web-6', namespace: 'shop', labels: { 'kubernetes.io/service-name': 'web' } },
      addressType: 'IPv6',
      ports: [{ name: 'http', port: 8080 }],
      endpoints: [{ addresses: ['fd00:10:244:1::5'], nodeName: 'node-1', conditions: { ready: true } }],
    },
    {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'ServiceCIDR',
      metadata: { name: 'kubernetes' },
      spec: { cidrs: ['10.96.0.0/12', 'fd00:10:96::/112'] },
    },
  ],
};
