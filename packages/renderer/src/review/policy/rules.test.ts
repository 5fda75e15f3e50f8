import type { BundleFiles } from '@sluice/bundle';
import { printWords } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { reviewedInput } from '../../commands/policy/reviewed-input.ts';
import { load } from '../../load/load.ts';
import { bundleOf, type Short } from './bundle.fixture.ts';
import { type PolicyCode, policyCodes } from './catalogue.ts';
import { checkPolicy } from './policy.ts';
import type { PolicySettings } from './settings.ts';

const both = ['10.244.1.5 node-a z1', '10.244.2.5 node-b z2'];
const web: Short = { name: 'web', clusterIPs: ['10.96.0.30'], endpoints: both };
const spec = (...lines: readonly string[]): Short => ({ ...web, spec: lines });
const port = (name: string, number = 80): string =>
  `ports: [{ name: ${name}, port: ${number}, targetPort: 8080, nodePort: 30080 }]`;
/** A load balancer with an address in each family, or in the one that is named. */
const balanced = (ranges: readonly string[], more: Partial<Short> = {}): Short => ({
  ...web,
  type: 'LoadBalancer',
  clusterIPs: ['10.96.0.30', 'fd00:10:96::30'],
  ingress: ['203.0.113.9', '2001:db8:100::9'],
  endpoints: [...both, 'fd00:10:244:1::5 node-a z1', 'fd00:10:244:2::5 node-b z2'],
  ...more,
  spec: [`loadBalancerSourceRanges: ${JSON.stringify(ranges)}`, ...(more.spec ?? [port('http')])],
});
const open = ['198.51.100.0/24', '2001:db8:9::/48'];
const many = (count: number): readonly Short[] =>
  Array.from({ length: count }, (_, at) => ({
    ...web,
    name: `web-${at}`,
    clusterIPs: [printWords([0x0a60, 0x0100 + at])],
  }));

interface Input {
  readonly files: BundleFiles;
  readonly base?: BundleFiles;
  readonly settings?: PolicySettings;
  /** Manifests of `-f`. */
  readonly input?: string;
}

const alone = (...services: readonly Short[]): Input => ({ files: bundleOf(services) });
const surviving = (...services: readonly Short[]): Input => ({
  ...alone(...services),
  settings: { levels: { SURVIVES_NODE: 'error', SURVIVES_ZONE: 'error' } },
});
const from = (old: Short, fresh: Short, settings: PolicySettings = {}): Input => ({
  base: bundleOf([old]),
  files: bundleOf([fresh]),
  settings,
});
/** The same Services under another profile. */
const profile = (old: string, fresh: string, service = web): Input => ({
  base: bundleOf([service], old),
  files: bundleOf([service], fresh),
});
/** A bundle in whose texts one address stands for another: what `sluice render` would refuse to write. */
const forged = (services: readonly Short[], old: string, fresh: string): Input => ({
  files: new Map([...bundleOf(services)].map(([path, text]) => [path, text.replaceAll(old, fresh)])),
});
const waiver = (expires: string, subject = 'shop/web'): PolicySettings => ({
  waivers: [{ rule: 'EXTERNAL_IP', subject, reason: 'moved in spring', expires }],
});
/** A bundle with the manifests of Service shop/web, its slice and a Node. */
const given = (service: string, ready = 'True', endpoint = 'conditions: { ready: true }'): Input => ({
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
const annotated = (key: string, value: string): Input => given(`annotations: { ${key}: "${value}" }`);
/** Two Services with further lines of their specs, in a bundle as a merge of two changes makes it. */
const merged = (one: readonly string[], other: readonly string[], old: string, fresh: string): Input =>
  forged(
    [
      { ...web, spec: one },
      { ...web, name: 'other', clusterIPs: ['10.96.0.31'], spec: other },
    ],
    old,
    fresh,
  );
const external = spec('externalIPs: [203.0.113.50]');

/** A rule, what happens, and whether the rule says so. */
type Case = readonly [code: PolicyCode, title: string, input: () => Input, fires: boolean];

const cases: readonly Case[] = [
  ['EXTERNAL_IP', 'the address is not in policy.externalIPs', () => alone(external), true],
  [
    'EXTERNAL_IP',
    'the address is in a network that is allowed',
    () => ({ ...alone(external), settings: { externalIPs: ['203.0.113.0/28', '203.0.113.48/28'] } }),
    false,
  ],
  [
    'EXTERNAL_IP',
    'a load balancer without endpoints has addresses of its own, not external ones',
    () => alone(balanced(open, { endpoints: [] })),
    false,
  ],
  ['EXTERNAL_IP_DEPRECATED', 'a Service has an external IP', () => alone(external), true],
  [
    'EXTERNAL_IP_DEPRECATED',
    'the feature gate is off, so that no node serves it',
    () => ({ files: bundleOf([external], '    featureGates: { AllowServiceExternalIPs: false }\n') }),
    false,
  ],
  [
    'FRONTEND_OVERLAP',
    'two changes that were merged give one external address to two Services',
    () => merged(['externalIPs: [203.0.113.50]'], ['externalIPs: [203.0.113.51]'], '203.0.113.51', '203.0.113.50'),
    true,
  ],
  [
    'FRONTEND_OVERLAP',
    'two changes that were merged give one node port to two Services',
    () =>
      forged(
        [
          { ...web, type: 'NodePort', spec: [port('http')] },
          { ...many(1)[0]!, type: 'NodePort', spec: [port('http').replace('30080', '30081')] },
        ],
        '30081',
        '30080',
      ),
    true,
  ],
  [
    'FRONTEND_OVERLAP',
    'two Services share an address with different ports',
    () =>
      alone(external, {
        ...external,
        name: 'other',
        clusterIPs: ['10.96.0.31'],
        spec: ['externalIPs: [203.0.113.50]', 'ports: [{ name: http, port: 81, targetPort: 8080 }]'],
      }),
    false,
  ],
  [
    'ADDRESS_SHARED',
    'two Services share an address with different ports',
    () =>
      alone(external, {
        ...external,
        name: 'other',
        clusterIPs: ['10.96.0.31'],
        spec: ['externalIPs: [203.0.113.50]', 'ports: [{ name: http, port: 81, targetPort: 8080 }]'],
      }),
    true,
  ],
  [
    'ADDRESS_SHARED',
    'two Services have addresses of their own',
    () => alone(external, { ...spec('externalIPs: [203.0.113.51]'), name: 'other', clusterIPs: ['10.96.0.31'] }),
    false,
  ],
  [
    'LOCALHOST_NODE_PORTS',
    'mode nftables has a node port',
    () => ({ files: bundleOf([{ ...web, type: 'NodePort' }], '    mode: nftables\n') }),
    true,
  ],
  [
    'LOCALHOST_NODE_PORTS',
    'node ports of mode ipvs are open on other addresses alone',
    () => ({
      files: bundleOf([{ ...web, type: 'NodePort' }], '    mode: ipvs\n    nodePortAddresses: [192.0.2.0/24]\n'),
    }),
    false,
  ],
  [
    'LOCALHOST_NODE_PORTS',
    'mode nftables has no node port',
    () => ({ files: bundleOf([web], '    mode: nftables\n') }),
    false,
  ],
  ['LOCALHOST_NODE_PORTS', 'mode iptables has a node port', () => alone({ ...web, type: 'NodePort' }), false],
  [
    'ANNOTATION_WITHOUT_EFFECT',
    'Tencent’s direct access',
    () => annotated('service.cloud.tencent.com/direct-access', 'true'),
    true,
  ],
  [
    'ANNOTATION_WITHOUT_EFFECT',
    'it is off',
    () => annotated('service.cloud.tencent.com/direct-access', 'false'),
    false,
  ],
  [
    'ANNOTATION_WITHOUT_EFFECT',
    'cookies of Traefik',
    () => annotated('traefik.ingress.kubernetes.io/service.sticky.cookie', 'true'),
    true,
  ],
  [
    'ANNOTATION_WITHOUT_EFFECT',
    'the name of a cookie alone',
    () => annotated('traefik.ingress.kubernetes.io/service.sticky.cookie.name', 'x'),
    false,
  ],
  [
    'ANNOTATION_WITHOUT_EFFECT',
    'cookies of ingress-nginx',
    () => annotated('nginx.ingress.kubernetes.io/affinity', 'cookie'),
    true,
  ],
  ['ANNOTATION_WITHOUT_EFFECT', 'affinity of pods to nodes', () => annotated('example.com/affinity', 'cookie'), false],
  [
    'ANNOTATION_WITHOUT_EFFECT',
    'cookies of HAProxy',
    () => annotated('haproxy.org/cookie-persistence', 'SERVERID'),
    true,
  ],
  [
    'ANNOTATION_WITHOUT_EFFECT',
    'cookies of a load balancer',
    () => annotated('service.beta.kubernetes.io/do-loadbalancer-sticky-sessions-type', 'cookies'),
    true,
  ],
  ['ANNOTATION_WITHOUT_EFFECT', 'other annotations', () => annotated('prometheus.io/scrape', 'true'), false],
  ['TOPOLOGY_KEYS', 'a Service has them', () => given('topologyKeys: [kubernetes.io/hostname, "*"]'), true],
  ['TOPOLOGY_KEYS', 'the list is empty', () => given('topologyKeys: []'), false],
  ['ENDPOINT_NODE_NOT_READY', 'its Node is lost', () => given('', 'Unknown'), true],
  ['ENDPOINT_NODE_NOT_READY', 'its Node is ready', () => given(''), false],
  [
    'ENDPOINT_NODE_NOT_READY',
    'the endpoint is not ready either',
    () => given('', 'False', 'conditions: { ready: false }'),
    false,
  ],
  [
    'ENDPOINT_RANGE',
    'an endpoint is outside of the pod networks',
    () => alone({ ...web, endpoints: [...both, '198.51.100.9'] }),
    true,
  ],
  [
    'ENDPOINT_RANGE',
    'an endpoint is in policy.endpointRanges',
    () => ({
      ...alone({ ...web, endpoints: [...both, '198.51.100.9'] }),
      settings: { endpointRanges: ['198.51.100.0/28'] },
    }),
    false,
  ],
  ['ENDPOINT_LOCAL', 'an endpoint is a loopback address', () => forged([web], '10.244.1.5', '127.0.0.1'), true],
  ['ENDPOINT_LOCAL', "an endpoint is the cloud's metadata", () => forged([web], '10.244.1.5', '169.254.169.254'), true],
  ['ENDPOINT_LOCAL', 'a cluster address is multicast', () => forged([web], '10.96.0.30', '224.0.0.5'), true],
  ['ENDPOINT_LOCAL', 'an endpoint is a pod', () => alone(web), false],
  ['ROUTE_LOCALNET', 'node ports answer on localhost', () => alone(web), true],
  [
    'ROUTE_LOCALNET',
    'node ports do not answer on localhost',
    () => ({ files: bundleOf([web], '    iptables: { localhostNodePorts: false }\n') }),
    false,
  ],
  ['ADDRESS_TAKEN', 'an external IP is a node', () => alone(spec('externalIPs: [192.0.2.11]')), true],
  ['ADDRESS_TAKEN', 'an external IP is a gateway of pods', () => alone(spec('externalIPs: [10.244.2.1]')), true],
  ['ADDRESS_TAKEN', "a cluster address is the API's", () => alone({ ...web, clusterIPs: ['10.96.0.1'] }), true],
  [
    'ADDRESS_TAKEN',
    "an external IP is the DNS's",
    () =>
      alone(
        { ...web, name: 'dns', clusterIPs: ['10.96.0.10'] },
        spec('externalIPs: [10.96.0.10]', 'ports: [{ name: http, port: 53 }]'),
      ),
    true,
  ],
  [
    'ADDRESS_TAKEN',
    'two Services have one cluster address',
    () => forged([web, { ...web, name: 'thief', clusterIPs: ['10.96.0.31'] }], '10.96.0.31', '10.96.0.30'),
    true,
  ],
  [
    'ADDRESS_TAKEN',
    'a load balancer has the address of a router',
    () => ({ ...alone(balanced(open)), settings: { protected: ['203.0.113.9'] } }),
    true,
  ],
  ['ADDRESS_TAKEN', 'an external IP has no other owner', () => alone(external), false],
  ['RANGES_ONE_FAMILY', 'IPv6 is open beside ranges of IPv4', () => alone(balanced(['198.51.100.0/24'])), true],
  [
    'RANGES_ONE_FAMILY',
    'the only address is of IPv6, the only range of IPv4',
    () => alone(balanced(['198.51.100.0/24'], { ingress: ['2001:db8:100::9'] })),
    true,
  ],
  ['RANGES_ONE_FAMILY', 'both families have ranges', () => alone(balanced(open)), false],
  [
    'RANGES_ONE_FAMILY',
    'the only address is of the only range’s family',
    () => alone(balanced(['198.51.100.0/24'], { ingress: ['203.0.113.9'] })),
    false,
  ],
  ['SINGLE_NODE', 'all endpoints are on one node', () => alone({ ...web, endpoints: both.slice(0, 1) }), true],
  ['SINGLE_NODE', 'endpoints are on two nodes', () => alone(web), false],
  ['SINGLE_ZONE', 'all endpoints are in one zone', () => alone({ ...web, endpoints: both.slice(1) }), true],
  ['SINGLE_ZONE', 'endpoints are in two zones', () => alone(web), false],
  ['SURVIVES_NODE', 'all endpoints are on one node', () => surviving({ ...web, endpoints: both.slice(0, 1) }), true],
  ['SURVIVES_NODE', 'endpoints are on two nodes', () => surviving(web), false],
  ['SURVIVES_ZONE', 'all endpoints are in one zone', () => surviving({ ...web, endpoints: both.slice(1) }), true],
  ['SURVIVES_ZONE', 'endpoints are in two zones', () => surviving(web), false],
  ['LAST_ENDPOINT', 'all endpoints go', () => from(web, { ...web, endpoints: [] }), true],
  [
    'LAST_ENDPOINT',
    'a port gets a name that no EndpointSlice has',
    () => from({ ...web, type: 'NodePort', spec: [port('http')] }, { ...web, type: 'NodePort', spec: [port('web')] }),
    true,
  ],
  ['LAST_ENDPOINT', 'one of two endpoints goes', () => from(web, { ...web, endpoints: both.slice(0, 1) }), false],
  ['LAST_ENDPOINT', 'there was none', () => from({ ...web, endpoints: [] }, { ...web, endpoints: [] }), false],
  ['SERVICE_REMOVED', 'a Service goes', () => ({ base: bundleOf([web, ...many(1)]), files: bundleOf([web]) }), true],
  [
    'SERVICE_REMOVED',
    'a port goes, and another number comes',
    () => from(spec('ports: [{ name: http, port: 80 }]'), spec('ports: [{ name: http, port: 81 }]')),
    true,
  ],
  [
    'SERVICE_REMOVED',
    'a Service without endpoints goes',
    () => ({ base: bundleOf([web, { ...many(1)[0]!, endpoints: [] }]), files: bundleOf([web]) }),
    false,
  ],
  [
    'ENDPOINTS_CHANGED',
    'every endpoint is another one',
    () => from(web, { ...web, endpoints: ['10.244.1.8 node-a z1', '10.244.2.8 node-b z2'] }),
    true,
  ],
  [
    'ENDPOINTS_CHANGED',
    'half of them are others',
    () => from(web, { ...web, endpoints: ['10.244.1.8 node-a z1', '10.244.2.5 node-b z2'] }),
    false,
  ],
  [
    'NODES_CHANGED',
    'an endpoint that all nodes use comes',
    () => from(web, { ...web, endpoints: [...both, '10.244.1.6 node-a z1'] }, { nodesChangedPercent: 50 }),
    true,
  ],
  [
    'NODES_CHANGED',
    'an endpoint that one of two nodes uses comes',
    () =>
      from(
        spec('internalTrafficPolicy: Local'),
        { ...spec('internalTrafficPolicy: Local'), endpoints: [...both, '10.244.1.6 node-a z1'] },
        { nodesChangedPercent: 50 },
      ),
    false,
  ],
  [
    'NODES_CHANGED',
    'the same in mode ipvs',
    () => {
      const local = (endpoints: readonly string[]): BundleFiles =>
        bundleOf([{ ...spec('internalTrafficPolicy: Local'), endpoints }], '    mode: ipvs\n');
      return {
        base: local(both),
        files: local([...both, '10.244.1.6 node-a z1']),
        settings: { nodesChangedPercent: 50 },
      };
    },
    false,
  ],
  ['NODE_PORT_OPENED', 'a Service gets one', () => from(web, { ...web, type: 'NodePort' }), true],
  [
    'NODE_PORT_OPENED',
    'a new Service has one',
    () => ({ base: bundleOf([web]), files: bundleOf([web, { ...many(1)[0]!, type: 'NodePort' }]) }),
    true,
  ],
  [
    'NODE_PORT_OPENED',
    'a profile opens them on every address',
    () => profile('    nodePortAddresses: [192.0.2.0/24]\n', '', { ...web, type: 'NodePort' }),
    true,
  ],
  [
    'NODE_PORT_OPENED',
    'a profile opens them on fewer addresses',
    () => profile('', '    nodePortAddresses: [192.0.2.0/24]\n', { ...web, type: 'NodePort' }),
    false,
  ],
  ['NODE_PORT_OPENED', 'a Service loses its own', () => from({ ...web, type: 'NodePort' }, web), false],
  [
    'NODE_PORT_OPENED',
    'the port behind it is called otherwise',
    () =>
      from(
        { ...web, type: 'NodePort', endpoints: [], spec: [port('http')] },
        { ...web, type: 'NodePort', endpoints: [], spec: [port('web')] },
      ),
    false,
  ],
  ['AFFINITY_CHANGED', 'affinity comes', () => from(web, spec('sessionAffinity: ClientIP')), true],
  [
    'AFFINITY_CHANGED',
    'it stays',
    () => from(spec('sessionAffinity: ClientIP'), spec('sessionAffinity: ClientIP')),
    false,
  ],
  ['TRAFFIC_POLICY_CHANGED', 'inside', () => from(web, spec('internalTrafficPolicy: Local')), true],
  [
    'TRAFFIC_POLICY_CHANGED',
    'from outside',
    () => from(external, spec('externalIPs: [203.0.113.50]', 'externalTrafficPolicy: Local')),
    true,
  ],
  [
    'TRAFFIC_POLICY_CHANGED',
    'what was the default is written',
    () => from(web, spec('internalTrafficPolicy: Cluster')),
    false,
  ],
  [
    'RANGES_WIDENED',
    'a range becomes wider',
    () => from(balanced(open), balanced(['198.51.0.0/16', '2001:db8:9::/48'])),
    true,
  ],
  ['RANGES_WIDENED', 'those of one family go', () => from(balanced(open), balanced(open.slice(0, 1))), true],
  [
    'RANGES_WIDENED',
    'they go while the port is called otherwise',
    () => from(balanced(open), balanced([], { spec: [port('web')] })),
    true,
  ],
  [
    'RANGES_WIDENED',
    'ranges are removed without an endpoint',
    () => from(balanced(open, { endpoints: [] }), balanced([])),
    true,
  ],
  ['RANGES_WIDENED', 'endpoints go, ranges stay', () => from(balanced(open), balanced(open, { endpoints: [] })), false],
  [
    'RANGES_WIDENED',
    'a range becomes narrower',
    () => from(balanced(open), balanced(['198.51.100.0/25', '2001:db8:9::/48'])),
    false,
  ],
  ['MODE_CHANGED', 'iptables becomes ipvs', () => profile('', '    mode: ipvs\n'), true],
  ['MODE_CHANGED', 'it stays', () => profile('    mode: ipvs\n', '    mode: ipvs\n'), false],
  ['SYSCTL_CHANGED', 'more connections are tracked', () => profile('', '    conntrack: { min: 262144 }\n'), true],
  ['RULE_GROWTH', 'ten Services come', () => ({ base: bundleOf([web]), files: bundleOf([web, ...many(10)]) }), true],
  ['RULE_GROWTH', 'a fifth more', () => ({ base: bundleOf(many(10)), files: bundleOf(many(12)) }), false],
  ['SYSCTL_CHANGED', 'localhost is closed', () => profile('', '    iptables: { localhostNodePorts: false }\n'), true],
  ['SYSCTL_CHANGED', 'nothing changes', () => profile('', ''), false],
  [
    'WAIVER_EXPIRED',
    'its last day was yesterday',
    () => ({ ...alone(external), settings: waiver('2026-11-20') }),
    true,
  ],
  ['WAIVER_EXPIRED', 'its last day is today', () => ({ ...alone(external), settings: waiver('2026-11-21') }), false],
  ['WAIVER_UNUSED', 'nothing was found', () => ({ ...alone(web), settings: waiver('2027-01-01') }), true],
  ['WAIVER_UNUSED', 'it waives something', () => ({ ...alone(external), settings: waiver('2027-01-01') }), false],
];

test.each(cases.map(([code, title, input, fires]) => ({ code, title, input, fires })))(
  '$code: $title: $fires',
  ({ code, input, fires }) => {
    const { files, base, settings = {}, input: manifests } = input();
    const objects = manifests === undefined ? undefined : load([{ file: 'in.yaml', text: manifests }]).objects;
    const reviewed = objects && { input: reviewedInput(objects) };
    const result = checkPolicy({ files, ...(base ? { base } : {}), ...reviewed, settings, today: '2026-11-21' });
    if (!('findings' in result)) throw new Error(result[0]?.message);
    const found = result.findings.filter((finding) => finding.code === code);
    expect(found.length > 0).toBe(fires);
    const textOf = (path: string): string => (path === 'in.yaml' ? manifests : files.get(path)) ?? '';
    for (const { path, line } of found) expect(textOf(path).split('\n').length).toBeGreaterThanOrEqual(line);
  },
);

test.each([true, false])('every rule has a case with this result: %s', (speaks) => {
  const shown = new Set(cases.flatMap(([code, , , fires]) => (fires === speaks ? [code] : [])));
  expect(policyCodes.filter((code) => !shown.has(code))).toEqual([]);
});
