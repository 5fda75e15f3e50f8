import type { BundleFiles } from '@sluice/bundle';
import { readConfig } from '@sluice/renderer/load/config/config.ts';
import { load } from '@sluice/renderer/load/load.ts';
import { render } from '@sluice/renderer/render/render.ts';

/** A short form of a Service. */
export interface Short {
  readonly name: string;
  /** Left out: `shop`. */
  readonly namespace?: string;
  readonly type?: string;
  /** One per family. */
  readonly clusterIPs?: readonly string[];
  /** More lines of the spec. */
  readonly spec?: readonly string[];
  /** Addresses that the load balancer has. */
  readonly ingress?: readonly string[];
  /** `address node zone`. */
  readonly endpoints?: readonly string[];
}

const nodes = ['a', 'b']
  .map(
    (name, at) => `
  - name: node-${name}
    addresses: [192.0.2.1${at + 1}, "2001:db8:2::1${at + 1}"]
    podCIDRs: [10.244.${at + 1}.0/24, "fd00:10:244:${at + 1}::/64"]
    cores: 4
    labels: { topology.kubernetes.io/zone: z${at + 1} }`,
  )
  .join('');

const config = (profile: string): string => `apiVersion: sluice.dev/v1alpha1
kind: SluiceConfig
serviceCIDRs: [10.96.0.0/12, "fd00:10:96::/108"]
nodes:${nodes}
profiles:
  - name: default
    clusterCIDR: 10.244.0.0/16,fd00:10:244::/56
${profile}`;

/**
 * The bundle of two nodes in two zones with these Services.
 * @param profile more lines of the only profile
 * @throws Error with the first problem of the input
 */
export const bundleOf = (services: readonly Short[], profile = ''): BundleFiles =>
  filesOf(services.map(manifestOf).join('---\n'), config(profile));

/**
 * The bundle of manifests.
 * @param settings the text of sluice.yaml
 * @throws Error with the first problem of the input
 */
export function filesOf(text: string, settings: string): BundleFiles {
  const manifests = load([{ file: 'in.yaml', text }]);
  const read = readConfig({ sluice: { file: 'sluice.yaml', text: settings }, kubeProxy: [] });
  const rendered = render({
    base: [],
    change: manifests.objects,
    config: read.config,
    allocations: [],
    allocate: true,
    snapshot: true,
    strict: false,
  });
  const errors = [...manifests.problems, ...read.problems, ...rendered.problems].filter(
    ({ level }) => level === 'error',
  );
  if (errors[0]) throw new Error(errors[0].message);
  return rendered.files;
}

function manifestOf({
  name,
  namespace = 'shop',
  type = 'ClusterIP',
  clusterIPs = [],
  spec = [],
  ingress = [],
  endpoints = [],
}: Short): string {
  const service = [
    'apiVersion: v1',
    'kind: Service',
    `metadata: { name: ${name}, namespace: ${namespace} }`,
    'spec:',
    `  type: ${type}`,
    ...(clusterIPs.length === 0
      ? []
      : [`  clusterIP: "${clusterIPs[0]}"`, `  clusterIPs: ${JSON.stringify(clusterIPs)}`]),
    ...(clusterIPs.length === 2 ? ['  ipFamilyPolicy: RequireDualStack', '  ipFamilies: [IPv4, IPv6]'] : []),
    ...spec.map((line) => `  ${line}`),
    ...(spec.some((line) => line.startsWith('ports:'))
      ? []
      : ['  ports: [{ name: http, port: 80, targetPort: 8080 }]']),
    ...(ingress.length === 0
      ? []
      : [`status: { loadBalancer: { ingress: ${JSON.stringify(ingress.map((ip) => ({ ip })))} } }`]),
  ];
  const slices = Map.groupBy(endpoints, (text) => (text.split(' ')[0]?.includes(':') ? 'IPv6' : 'IPv4'));
  return [service, ...[...slices].map(([family, list]) => sliceOf(name, family, list))]
    .map((lines) => `${lines.join('\n')}\n`)
    .join('---\n');
}

function sliceOf(name: string, family: string, endpoints: readonly string[]): readonly string[] {
  return [
    'apiVersion: discovery.k8s.io/v1',
    'kind: EndpointSlice',
    `metadata: { name: ${name}-${family.toLowerCase()}, namespace: shop, labels: { kubernetes.io/service-name: ${name} } }`,
    `addressType: ${family}`,
    'ports: [{ name: http, port: 8080, protocol: TCP }]',
    'endpoints:',
    ...endpoints.map((text) => {
      const [address, node, zone] = text.split(' ');
      return `  - { addresses: ["${address}"], conditions: { ready: true }${node ? `, nodeName: ${node}` : ''}${zone ? `, zone: ${zone}` : ''} }`;
    }),
  ];
}
