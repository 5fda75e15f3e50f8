import type { BundleFiles } from '@sluice/bundle';
import { printWords } from '@sluice/netfilter';
import { bundleOf, type Short } from './bundle.fixture.ts';
import type { PolicyCode } from './catalogue.ts';
import type { PolicySettings } from './settings.ts';

/** Builders of what rules are tried on. */

export const both = ['10.244.1.5 node-a z1', '10.244.2.5 node-b z2'];
export const web: Short = { name: 'web', clusterIPs: ['10.96.0.30'], endpoints: both };
export const spec = (...lines: readonly string[]): Short => ({ ...web, spec: lines });
export const port = (name: string, number = 80): string =>
  `ports: [{ name: ${name}, port: ${number}, targetPort: 8080, nodePort: 30080 }]`;
/** A load balancer with an address in each family, or in the one that is named. */
export const balanced = (ranges: readonly string[], more: Partial<Short> = {}): Short => ({
  ...web,
  type: 'LoadBalancer',
  clusterIPs: ['10.96.0.30', 'fd00:10:96::30'],
  ingress: ['203.0.113.9', '2001:db8:100::9'],
  endpoints: [...both, 'fd00:10:244:1::5 node-a z1', 'fd00:10:244:2::5 node-b z2'],
  ...more,
  spec: [`loadBalancerSourceRanges: ${JSON.stringify(ranges)}`, ...(more.spec ?? [port('http')])],
});
export const open = ['198.51.100.0/24', '2001:db8:9::/48'];
export const many = (count: number): readonly Short[] =>
  Array.from({ length: count }, (_, at) => ({
    ...web,
    name: `web-${at}`,
    clusterIPs: [printWords([0x0a60, 0x0100 + at])],
  }));

export interface Input {
  readonly files: BundleFiles;
  readonly base?: BundleFiles;
  readonly settings?: PolicySettings;
  /** Manifests of `-f`. */
  readonly input?: string;
}

/** A bundle alone, without one before it. */
export const alone = (...services: readonly Short[]): Input => ({ files: bundleOf(services) });
/** A bundle that is asked whether it survives the loss of a node or a zone. */
export const surviving = (...services: readonly Short[]): Input => ({
  ...alone(...services),
  settings: { levels: { SURVIVES_NODE: 'error', SURVIVES_ZONE: 'error' } },
});
/** A change of one Service. */
export const from = (old: Short, updated: Short, settings: PolicySettings = {}): Input => ({
  base: bundleOf([old]),
  files: bundleOf([updated]),
  settings,
});
/** The same Services under another profile. */
export const profile = (old: string, updated: string, service = web): Input => ({
  base: bundleOf([service], old),
  files: bundleOf([service], updated),
});
/** A bundle in whose texts one address stands for another: what `sluice render` would refuse to write. */
export const forged = (services: readonly Short[], old: string, updated: string): Input => ({
  files: new Map([...bundleOf(services)].map(([path, text]) => [path, text.replaceAll(old, updated)])),
});
export const waiver = (expires: string, subject = 'shop/web'): PolicySettings => ({
  waivers: [{ rule: 'EXTERNAL_IP', subject, reason: 'moved in spring', expires }],
});
/** A bundle with the manifests of Service shop/web, its slice and a Node. */
export const given = (service: string, ready = 'True', endpoint = 'conditions: { ready: true }'): Input => ({
  ...alone(web),
  input: `apiVersion: v1
kind: Service
metadata: { name: web, namespace: shop${service.startsWith('annotations') ? `, ${service}` : ''} }
spec: { ports: [{ port: 80 }]${service.startsWith('topologyKeys') ? `, ${service}` : ''} }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: web-1, namespace: shop, labels: { kubernetes.io/service-name: web } }
addressType: IPv4
ports: [{ port: 8080 }]
endpoints:
  - { addresses: [10.244.1.5], nodeName: node-a, ${endpoint} }
---
apiVersion: v1
kind: Node
metadata: { name: node-a }
status: { conditions: [{ type: MemoryPressure, status: "False" }, { type: Ready, status: "${ready}" }] }
`,
});
/** @param more fields of the spec */
export const annotated = (key: string, value: string, more = ''): Input => {
  const { input, ...rest } = given(`annotations: { ${key}: "${value}" }`);
  return { ...rest, input: (input ?? '').replace('spec: {', `spec: { ${more === '' ? '' : `${more},`}`) };
};
/** Two Services with further lines of their specs, in a bundle as a merge of two changes makes it. */
export const merged = (one: readonly string[], other: readonly string[], old: string, updated: string): Input =>
  forged(
    [
      { ...web, spec: one },
      { ...web, name: 'other', clusterIPs: ['10.96.0.31'], spec: other },
    ],
    old,
    updated,
  );
export const external = spec('externalIPs: [203.0.113.50]');

/** A rule, what happens, and whether the rule says so. */
export type Case = readonly [code: PolicyCode, title: string, input: () => Input, fires: boolean];
