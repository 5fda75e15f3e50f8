import type { BundleFiles } from '@sluice/bundle';
import { reportHtml } from '../../packages/review/src/emit/report/html.ts';
import { filesOf } from '../../packages/review/src/policy/bundle.fixture.ts';
import { type ChangeReport, reportOn } from '../../packages/review/src/report/report.ts';

/** A Service of the fixture: endpoints as `node-1:7`, the node and the last number of the address. */
interface Stall {
  readonly name: string;
  readonly ip: number;
  readonly endpoints: readonly string[];
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly balancer?: string;
}

const nodes = [1, 2, 3, 4, 5, 6];
const zoneOf = (node: number): string => `eu-${'abc'[Math.floor((node - 1) / 2)]}`;

const config = `apiVersion: sluice.dev/v1alpha1
kind: SluiceConfig
complete: true
nodes:
${nodes.map((node) => `  - { name: node-${node}, addresses: [192.0.2.1${node}], podCIDRs: [10.244.${node}.0/24], cores: 4, labels: { topology.kubernetes.io/zone: ${zoneOf(node)} } }`).join('\n')}
profiles:
  - { name: default, clusterCIDR: 10.244.0.0/16 }
`;

/** Twelve Services that are rolled out: one endpoint of each is exchanged. */
const rolled = (last: number): readonly Stall[] =>
  Array.from({ length: 12 }, (_, at) => ({
    name: `${['media', 'search', 'shop'][at % 3]}/${['thumbnails', 'index', 'basket', 'player', 'suggest', 'stock', 'upload', 'crawler', 'price', 'covers', 'ranking', 'rating'][at]}`,
    ip: 100 + at,
    endpoints: [
      `node-${(at % 6) + 1}:${20 + at}`,
      `node-${((at + 2) % 6) + 1}:${40 + at}`,
      `node-${((at + 4) % 6) + 1}:${last + at}`,
    ],
  }));

const same: readonly Stall[] = [
  { name: 'kube-system/dns', ip: 10, endpoints: ['node-1:2', 'node-3:2', 'node-5:2'] },
  { name: 'monitoring/alerts', ip: 11, endpoints: ['node-2:3'] },
  { name: 'monitoring/dashboards', ip: 12, endpoints: ['node-4:3', 'node-6:3'] },
  { name: 'payments/cards', ip: 13, endpoints: ['node-1:5', 'node-2:5', 'node-4:5', 'node-6:5'] },
];

const old: readonly Stall[] = [
  ...same,
  ...rolled(60),
  { name: 'payments/ledger', ip: 20, endpoints: ['node-3:9'] },
  { name: 'payments/refunds', ip: 21, endpoints: ['node-2:9', 'node-5:9'] },
  { name: 'shop/web', ip: 22, endpoints: ['node-1:10', 'node-3:10', 'node-5:10'] },
  {
    name: 'shop/api',
    ip: 23,
    endpoints: ['node-2:11', 'node-4:11'],
    spec: { type: 'NodePort', externalTrafficPolicy: 'Local' },
  },
  { name: 'shop/login', ip: 24, endpoints: ['node-2:12', 'node-6:12'], spec: { sessionAffinity: 'ClientIP' } },
  {
    name: 'media/stream',
    ip: 25,
    endpoints: ['node-1:13', 'node-4:13', 'node-6:13'],
    spec: { type: 'LoadBalancer', loadBalancerSourceRanges: ['198.51.100.0/24'] },
    balancer: '203.0.113.20',
  },
];

const fresh: readonly Stall[] = [
  ...same,
  ...rolled(80),
  { name: 'payments/ledger', ip: 20, endpoints: [] },
  {
    name: 'shop/web',
    ip: 22,
    endpoints: ['node-1:10', 'node-2:10', 'node-3:10', 'node-6:10'],
    spec: { type: 'NodePort' },
  },
  {
    name: 'shop/api',
    ip: 23,
    endpoints: ['node-2:11', 'node-4:11'],
    spec: { type: 'NodePort', externalTrafficPolicy: 'Cluster' },
  },
  { name: 'shop/login', ip: 24, endpoints: ['node-2:12', 'node-6:12'] },
  {
    name: 'media/stream',
    ip: 25,
    endpoints: ['node-1:13', 'node-4:13', 'node-6:13'],
    spec: { type: 'LoadBalancer' },
    balancer: '203.0.113.20',
  },
  { name: 'monitoring/traces', ip: 26, endpoints: ['node-3:14', 'node-5:14'] },
];

/** The report on the change, with its policy. */
export function shopReport(): ChangeReport {
  const report = reportOn({ ...shop, policy: { settings: {}, today: '2026-11-21' } });
  return report;
}

/** The page of the report. @param name of the new bundle, which the page shows */
export function shopPage(name = 'rendered', report = shopReport()): string {
  return reportHtml(report, {
    old: { name: 'main:rendered', files: shop.old },
    updated: { name, files: shop.updated },
  });
}

const bundleOf = (stalls: readonly Stall[]): BundleFiles =>
  filesOf(JSON.stringify({ apiVersion: 'v1', kind: 'List', items: stalls.flatMap(objectsOf) }), config);

/** Both bundles of a change with every severity; `old` and `fresh` have 22 Services on six nodes in three zones. */
export const shop: { readonly old: BundleFiles; readonly updated: BundleFiles } = {
  old: bundleOf(old),
  updated: bundleOf(fresh),
};

function objectsOf({ name, ip, endpoints, spec = {}, balancer }: Stall): readonly object[] {
  const [namespace = '', own = ''] = name.split('/');
  const nodePort = spec['type'] === undefined ? {} : { nodePort: 30_000 + ip };
  return [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: own, namespace },
      spec: {
        clusterIP: `10.96.0.${ip}`,
        selector: { app: own },
        ...spec,
        ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 8080, ...nodePort }],
      },
      status: { loadBalancer: balancer === undefined ? {} : { ingress: [{ ip: balancer }] } },
    },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name: `${own}-1`, namespace, labels: { 'kubernetes.io/service-name': own } },
      addressType: 'IPv4',
      ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
      endpoints: endpoints.map((text) => {
        const [node = '', last = ''] = text.split(':');
        const number = Number(node.slice(5));
        return {
          addresses: [`10.244.${number}.${last}`],
          conditions: { ready: true },
          nodeName: node,
          zone: zoneOf(number),
        };
      }),
    },
  ];
}
