import type { Drawn } from './plan.ts';

/** How the examined Service is declared; the rest is drawn. */
export interface ServiceOptions {
  readonly protocol?: 'TCP' | 'UDP';
  /** Which pods are endpoints: `a1` on the examined node, `b1` on another one. */
  readonly endpoints?: readonly ('a1' | 'b1')[];
  readonly externalPolicy?: 'Cluster' | 'Local';
  readonly internalPolicy?: 'Cluster' | 'Local';
  readonly externalIP?: string;
  /** Default: the drawn one. */
  readonly nodePort?: number;
  /** A newer Service wants the same external address and port. */
  readonly isRivalled?: boolean;
  /** Another port than the one on which pods answer. */
  readonly wrongPort?: number;
}

/** Addresses of the machines of the test cluster, by family. */
export const addresses = {
  'node-a': { ipv4: '192.0.2.11', ipv6: '2001:db8:2::11' },
  'node-b': { ipv4: '192.0.2.12', ipv6: '2001:db8:2::12' },
  a1: { ipv4: '10.244.1.5', ipv6: 'fd00:244:1::5' },
  c1: { ipv4: '10.244.1.9', ipv6: 'fd00:244:1::9' },
  b1: { ipv4: '10.244.2.6', ipv6: 'fd00:244:2::6' },
  outside: { ipv4: '198.51.100.7', ipv6: '2001:db8:51::7' },
} as const;

const family = ({ family: drawn }: Drawn): string => (drawn === 'ipv4' ? 'IPv4' : 'IPv6');

const node = (name: 'node-a' | 'node-b', n: number): object => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name, labels: { 'kubernetes.io/hostname': name } },
  spec: { podCIDR: `10.244.${n}.0/24`, podCIDRs: [`10.244.${n}.0/24`, `fd00:244:${n}::/64`] },
  status: { addresses: Object.values(addresses[name]).map((address) => ({ type: 'InternalIP', address })) },
});

/** @param hours how much later it was made than others */
function service(drawn: Drawn, options: ServiceOptions, hours = 0): object {
  const { namespace, name, port, targetPort, nodePort, clusterIP } = drawn;
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace, creationTimestamp: `2026-01-01T0${hours}:00:00Z` },
    spec: {
      type: 'NodePort',
      selector: { app: name },
      clusterIP,
      clusterIPs: [clusterIP],
      ipFamilies: [family(drawn)],
      ipFamilyPolicy: 'SingleStack',
      externalTrafficPolicy: options.externalPolicy ?? 'Cluster',
      internalTrafficPolicy: options.internalPolicy ?? 'Cluster',
      ...(options.externalIP === undefined ? {} : { externalIPs: [options.externalIP] }),
      ports: [
        { name: 'main', protocol: options.protocol ?? 'TCP', port, targetPort, nodePort: options.nodePort ?? nodePort },
      ],
    },
  };
}

function slice(drawn: Drawn, { protocol = 'TCP', endpoints = ['a1', 'b1'], wrongPort }: ServiceOptions): object {
  const { namespace, name, targetPort } = drawn;
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: `${name}-x7`, namespace, labels: { 'kubernetes.io/service-name': name } },
    addressType: family(drawn),
    ports: [{ name: 'main', port: wrongPort ?? targetPort, protocol }],
    endpoints: endpoints.map((pod) => ({
      addresses: [addresses[pod][drawn.family]],
      conditions: { ready: true },
      nodeName: pod === 'a1' ? 'node-a' : 'node-b',
    })),
  };
}

/** A second Service that works, so that the node is never about one alone. */
const otherService = (drawn: Drawn): Drawn => ({
  ...drawn,
  namespace: 'default',
  name: 'other',
  port: 443,
  nodePort: drawn.nodePort === 30_000 ? 30_001 : 30_000,
  clusterIP: drawn.family === 'ipv4' ? '10.96.0.1' : 'fd00:96::1',
});

/** A Service that came later and wants the external address of the examined one. */
const rivalService = (drawn: Drawn): Drawn => ({
  ...drawn,
  name: `${drawn.name}-rival`,
  nodePort: drawn.nodePort === 30_002 ? 30_003 : 30_002,
  clusterIP: drawn.family === 'ipv4' ? '10.96.0.2' : 'fd00:96::2',
});

/** The input of `sluice render`, in JSON documents. */
export function manifests(drawn: Drawn, options: ServiceOptions): string {
  const other = otherService(drawn);
  const objects = [
    node('node-a', 1),
    node('node-b', 2),
    service(drawn, options),
    slice(drawn, options),
    service(other, {}),
    slice(other, {}),
    ...(options.isRivalled ? [service(rivalService(drawn), options, 1), slice(rivalService(drawn), {})] : []),
  ];
  return objects.map((object) => `${JSON.stringify(object)}\n`).join('---\n');
}

/** `sluice.yaml` */
export const config = ({ plane }: Drawn): string =>
  JSON.stringify({
    apiVersion: 'sluice.dev/v1alpha1',
    kind: 'SluiceConfig',
    clusterName: 'doctor',
    complete: true,
    serviceCIDRs: ['10.96.0.0/12', 'fd00:96::/112'],
    profiles: [{ name: 'default', mode: plane.mode, clusterCIDR: '10.244.0.0/16,fd00:244::/32' }],
  });
