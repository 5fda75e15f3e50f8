import type { ParityCause, ParityReport } from '@sluice/bundle';
import type { KubeItem } from './api-server.ts';
import { nodes } from './clusters.ts';

/** One difference, made in the kernel of a node with kube-proxy. */
export interface Planted {
  readonly title: string;
  /** Shell commands. */
  readonly plant: string;
  readonly undo?: string;
  /** With nothing to find; default: `incomplete`. */
  readonly result?: ParityReport['result'];
  /** What a comparison must find, and nothing else. */
  readonly finds: readonly { readonly frontend: RegExp; readonly cause: ParityCause; readonly rule?: RegExp }[];
}

interface Sketch {
  readonly name: string;
  readonly at: number;
  readonly type?: 'ClusterIP' | 'NodePort' | 'LoadBalancer';
  readonly endpoints: readonly string[];
  readonly affinity?: number;
  readonly ranges?: readonly string[];
  /** More fields of the Service's spec. */
  readonly spec?: Readonly<Record<string, unknown>>;
}

const service = ({ name, at, type = 'ClusterIP', affinity, ranges, spec }: Sketch): KubeItem =>
  ({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'shop' },
    spec: {
      type,
      clusterIP: `10.96.0.${at}`,
      clusterIPs: [`10.96.0.${at}`],
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
      selector: { app: name },
      ports: [
        {
          name: 'http',
          protocol: 'TCP',
          port: 80,
          targetPort: 8080,
          ...(type === 'ClusterIP' ? {} : { nodePort: 30_000 + at }),
        },
      ],
      internalTrafficPolicy: 'Cluster',
      externalTrafficPolicy: 'Cluster',
      ...(affinity === undefined
        ? { sessionAffinity: 'None' }
        : { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: affinity } } }),
      ...(ranges ? { loadBalancerSourceRanges: ranges } : {}),
      ...spec,
    },
    status: { loadBalancer: type === 'LoadBalancer' ? { ingress: [{ ip: `198.51.100.${at}`, ipMode: 'VIP' }] } : {} },
  }) as KubeItem;

const slice = ({ name, endpoints }: Sketch): KubeItem =>
  ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: `${name}-1`, namespace: 'shop', labels: { 'kubernetes.io/service-name': name } },
    addressType: 'IPv4',
    ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
    endpoints: endpoints.map((address) => ({
      addresses: [address],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: address.startsWith('10.244.1.') ? 'node-1' : 'node-2',
    })),
  }) as KubeItem;

const itemsOfSketches = (list: readonly Sketch[]): readonly KubeItem[] =>
  list.flatMap((one) => [service(one), slice(one)]);

const sketches: readonly Sketch[] = [
  { name: 'web', at: 10, endpoints: ['10.244.1.10', '10.244.2.10'] },
  { name: 'gate', at: 11, type: 'NodePort', endpoints: ['10.244.1.11', '10.244.2.11'] },
  { name: 'sticky', at: 12, affinity: 10_800, endpoints: ['10.244.1.12', '10.244.2.12'] },
  { name: 'lb', at: 13, type: 'LoadBalancer', ranges: ['203.0.113.0/24'], endpoints: ['10.244.1.13', '10.244.2.13'] },
  { name: 'gone', at: 14, endpoints: [] },
];

/** A Service of each kind that a difference is planted in. */
export const plantedCluster: readonly KubeItem[] = [...nodes, ...itemsOfSketches(sketches)];

/** With each kind of frontend that a setting of kube-proxy decides about. */
export const clusterOfSettings: readonly KubeItem[] = [
  ...plantedCluster,
  ...itemsOfSketches([
    {
      name: 'edge',
      at: 15,
      type: 'LoadBalancer',
      spec: { externalTrafficPolicy: 'Local', healthCheckNodePort: 32_015 },
      endpoints: ['10.244.1.15', '10.244.2.15'],
    },
    { name: 'far', at: 16, type: 'NodePort', spec: { externalTrafficPolicy: 'Local' }, endpoints: ['10.244.2.16'] },
    { name: 'out', at: 17, spec: { externalIPs: ['203.0.113.17'] }, endpoints: ['10.244.1.17', '10.244.2.17'] },
    { name: 'also', at: 18, spec: { externalIPs: ['203.0.113.18'] }, endpoints: ['10.244.1.18'] },
  ]),
];

/** Rewrites the rules of kube-proxy in the kernel. The chains keep their names; what the script prints is loaded. */
const edit = (script: string): string => `iptables-nft-save > /run/planted.iptables
  sed -E ${JSON.stringify(script)} /run/planted.iptables > /run/changed.iptables
  ! cmp -s /run/planted.iptables /run/changed.iptables
  iptables-nft-restore < /run/changed.iptables`;
const add = (rule: string): string => `iptables-nft-save > /run/planted.iptables\niptables-nft ${rule}`;

export const planted: readonly Planted[] = [
  {
    title: 'a wrong endpoint',
    plant: edit(String.raw`s/--to-destination 10\.244\.2\.10:8080/--to-destination 10.244.2.99:8080/`),
    finds: [{ frontend: /^10\.96\.0\.10:80/, cause: 'objects' }],
  },
  {
    title: 'a missing masquerade',
    plant: edit(String.raw`/ -d 10\.96\.0\.10\/32 .* -j KUBE-MARK-MASQ/d`),
    finds: [{ frontend: /^10\.96\.0\.10:80/, cause: 'bug' }],
  },
  {
    title: 'another time of affinity',
    plant: edit('s/--seconds 10800/--seconds 600/'),
    finds: [{ frontend: /^10\.96\.0\.12:80/, cause: 'objects' }],
  },
  {
    title: 'a further source range',
    plant: edit(String.raw`s/^(-A KUBE-FW-\S+) -s 203\.0\.113\.0\/24 (.*)$/\1 -s 198.51.100.0\/25 \2\n&/`),
    finds: [{ frontend: /^198\.51\.100\.13:80/, cause: 'objects' }],
  },
  {
    title: 'a missing reject',
    plant: edit(String.raw`/ -d 10\.96\.0\.14\/32 .*REJECT/d`),
    finds: [{ frontend: /^10\.96\.0\.14:80/, cause: 'objects' }],
  },
  {
    title: 'other weights',
    plant: edit(String.raw`/shop\/gate:http/s/--probability 0\.50000000000/--probability 0.80000000000/`),
    finds: [
      { frontend: /^10\.96\.0\.11:80/, cause: 'bug' },
      { frontend: /^node port 30011/, cause: 'bug' },
      { frontend: /^localhost 30011/, cause: 'bug' },
    ],
  },
  {
    title: 'a foreign DNAT in front',
    plant: add('-t nat -I PREROUTING -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 192.0.2.99:80'),
    finds: [{ frontend: /^10\.96\.0\.10:80/, cause: 'foreign-rule', rule: /192\.0\.2\.99/ }],
  },
  {
    title: 'a DROP in FORWARD',
    plant: add('-I FORWARD -d 10.244.2.13/32 -p tcp -j DROP'),
    finds: [
      { frontend: /^10\.96\.0\.13:80/, cause: 'foreign-rule', rule: /-j DROP/ },
      { frontend: /^198\.51\.100\.13:80/, cause: 'foreign-rule', rule: /-j DROP/ },
      { frontend: /^node port 30013/, cause: 'foreign-rule', rule: /-j DROP/ },
    ],
  },
  {
    title: 'a rule that is not understood',
    plant: add('-I FORWARD -d 10.244.2.10/32 -m limit --limit 1/second -j DROP'),
    finds: [],
  },
];

const table = 'nft -s list table ip kube-proxy > /run/planted.nft';
const restoreTable = "printf 'delete table ip kube-proxy\\n' | cat - /run/planted.nft | nft -f -";
const inTable = (change: string): Pick<Planted, 'plant' | 'undo'> => ({
  plant: `${table}\n${change}`,
  undo: restoreTable,
});
/** Rewrites the listing of the table. */
const rewrite = (script: string): Pick<Planted, 'plant' | 'undo'> =>
  inTable(`sed -E ${JSON.stringify(script)} /run/planted.nft > /run/changed.nft
  ! cmp -s /run/planted.nft /run/changed.nft
  printf 'delete table ip kube-proxy\\n' | cat - /run/changed.nft | nft -f -`);

export const plantedInTable: readonly Planted[] = [
  {
    title: 'a wrong endpoint',
    ...rewrite(String.raw`s/1 : 10\.244\.2\.10 \. 8080/1 : 10.244.2.99 . 8080/`),
    finds: [{ frontend: /^10\.96\.0\.10:80/, cause: 'objects' }],
  },
  {
    title: 'a ClusterIP that is not masqueraded',
    ...rewrite(String.raw`/set cluster-ips/,/\}/s/10\.96\.0\.10,?//`),
    finds: [
      { frontend: /^10\.96\.0\.10:80/, cause: 'bug' },
      { frontend: /^10\.96\.0\.10:9\//, cause: 'objects' },
    ],
  },
  {
    title: 'another time of affinity',
    ...rewrite('s/timeout 3h/timeout 10m/'),
    finds: [{ frontend: /^10\.96\.0\.12:80/, cause: 'objects' }],
  },
  {
    title: 'a further source range',
    ...rewrite(String.raw`s/saddr != 203\.0\.113\.0\/24 drop/saddr != { 203.0.113.0\/24, 198.51.100.0\/25 } drop/`),
    finds: [{ frontend: /^198\.51\.100\.13:80/, cause: 'objects' }],
  },
  {
    title: 'a missing reject',
    ...inTable("nft 'delete element ip kube-proxy no-endpoint-services { 10.96.0.14 . tcp . 80 }'"),
    // Packets to other ports of a ClusterIP are rejected alike.
    result: 'equivalent',
    finds: [],
  },
  {
    title: 'other weights',
    ...rewrite(
      String.raw`s/random mod 2 map \{ 0 : 10\.244\.1\.11 \. 8080, 1 : 10\.244\.2\.11 \. 8080 \}/random mod 3 map { 0 : 10.244.1.11 . 8080, 1 : 10.244.1.11 . 8080, 2 : 10.244.2.11 . 8080 }/`,
    ),
    finds: [
      { frontend: /^10\.96\.0\.11:80/, cause: 'bug' },
      { frontend: /^node port 30011/, cause: 'bug' },
    ],
  },
  {
    title: 'a foreign DNAT in front',
    plant:
      'iptables-nft-save > /run/planted.iptables\nnft "add table ip other; add chain ip other pre { type nat hook prerouting priority -150; }; add rule ip other pre ip daddr 10.96.0.10 tcp dport 80 dnat to 192.0.2.99:80"',
    undo: 'nft delete table ip other',
    finds: [{ frontend: /^10\.96\.0\.10:80/, cause: 'foreign-rule', rule: /192\.0\.2\.99/ }],
  },
  {
    title: 'a DROP in FORWARD',
    plant: 'iptables-nft -I FORWARD -d 10.244.2.13/32 -p tcp -j DROP',
    undo: 'iptables-nft -D FORWARD -d 10.244.2.13/32 -p tcp -j DROP',
    finds: [
      { frontend: /^10\.96\.0\.13:80/, cause: 'foreign-rule', rule: /-j DROP/ },
      { frontend: /^198\.51\.100\.13:80/, cause: 'foreign-rule', rule: /-j DROP/ },
      { frontend: /^node port 30013/, cause: 'foreign-rule', rule: /-j DROP/ },
    ],
  },
  {
    title: 'a rule that is not understood',
    plant:
      'nft "add table inet other; add chain inet other early { type filter hook forward priority -5; }; add rule inet other early ip daddr 10.244.2.10 limit rate 1/second drop"',
    undo: 'nft delete table inet other',
    finds: [],
  },
];
