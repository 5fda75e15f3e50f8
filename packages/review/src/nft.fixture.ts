import type { BundleFiles } from '@sluice/bundle';
import { printNftTable } from '@sluice/netfilter';

const profile = 'profiles/default';

/** The path of a Service's file in `nftBundle`. */
export const nftService = (name: string): string => `${profile}/services/shop/${name}.nft`;

const node = (number: number): string => `apiVersion: sluice.dev/v1alpha1
kind: Node
profile: default
zone: a
values:
  ipv4:
    address: 192.0.2.1${number}
    podCIDR: 10.244.${number}.0/24
`;

const add = (name: string, elements: string, guard = ''): string =>
  `${guard}add element inet sluice ${name} { ${elements} }\n`;

/** One endpoint on each node; each Service has pods of its own. */
const endpointsOf = (pod: number): readonly (readonly [address: string, node: string, zone: string])[] => [
  [`10.244.1.${pod}`, 'node-1', 'a'],
  [`10.244.2.${pod + 2}`, 'node-2', 'b'],
];

const notesOf = (pod: number): string =>
  endpointsOf(pod)
    .map(([address, name, zone]) => `# endpoint http ${address}:8080 ${name} ${zone}\n`)
    .join('');

/** One line per endpoint, for some frontends, and one on its own node. */
const lists = (pod: number, ...frontends: readonly string[]): string =>
  [
    ...endpointsOf(pod).map(([address]) =>
      add('tcp4', frontends.map((one) => `${one} . \${slot} : ${address} . 8080`).join(', ')),
    ),
    ...endpointsOf(pod).map(([address, name]) => add('loop4', `${address} . ${address}`, `@node=${name} `)),
  ].join('');

const web = `# shop/web ClusterIP
# 10.96.0.10: http 80/TCP
${notesOf(5)}${add('cluster4', '10.96.0.10')}${add('svc4', '10.96.0.10 . tcp . 80 : goto n${count}')}${lists(5, '10.96.0.10 . 80')}`;

const cart = `# shop/cart ClusterIP
# 10.96.0.20: http 80/TCP
# session affinity ClientIP 600 s
${notesOf(20)}${add('cluster4', '10.96.0.20')}${add('svc4', '10.96.0.20 . tcp . 80 : goto s${count}t600')}${lists(20, '10.96.0.20 . 80')}`;

const idle = `# shop/idle ClusterIP
# 10.96.0.40: http 80/TCP
${add('cluster4', '10.96.0.40')}${add('svc4', '10.96.0.40 . tcp . 80 : goto n${count}')}${add('none4', '10.96.0.40 . tcp . 80 : goto refuse')}`;

const own = '203.0.113.9 . tcp . 80';
const ofNode = '0.0.0.0 . tcp . 30090';
const gate = `# shop/gate LoadBalancer
# 10.96.0.30: http 80/TCP node port 30090
# load-balancer address 203.0.113.9
# load-balancer source range 198.51.100.0/25
# externalTrafficPolicy Local
# health-check node port 32090
${notesOf(30)}${[
  add('cluster4', '10.96.0.30'),
  add('svc4', `10.96.0.30 . tcp . 80 : goto n\${count}, ${own} : goto n\${count}, ${ofNode} : goto pn\${count}`),
  add('near4', `${own}, ${ofNode}`),
  add('out4', `${own} : goto l\${localCount}, ${ofNode} : goto pl\${localCount}`),
  add('none4', `${own} : drop, ${ofNode} : drop`),
  add('fw4', own),
  add('allow4', `${own} . 198.51.100.0/25`),
  add('allow4', `${own} . 203.0.113.9`, '@ip-in=198.51.100.0/25 '),
  add('health4', '32090'),
  lists(30, '10.96.0.30 . 80', '203.0.113.9 . 80', '0.0.0.0 . 30090'),
  ...endpointsOf(30).map(([address, name]) => {
    const to = `\${localSlot} : ${address} . 8080`;
    return add('tcp4', `203.0.113.9 . 80 . ${to}, 0.0.0.0 . 30090 . ${to}`, `@node=${name} `);
  }),
].join('')}`;

/**
 * A bundle of mode nftables: two nodes, a ClusterIP, session affinity, no endpoint, and a load balancer with policy Local, source ranges
 * and a node port; each node has one endpoint.
 */
export const nftBundle: BundleFiles = new Map([
  [
    'cluster.yaml',
    'apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nformat: 1\nname: test\ncomplete: true\nserviceCIDRs:\n  - 10.96.0.0/16\n',
  ],
  ['nodes/node-1/node.yaml', node(1)],
  ['nodes/node-2/node.yaml', node(2)],
  [
    `${profile}/profile.yaml`,
    `apiVersion: sluice.dev/v1alpha1
kind: Profile
mode: nftables
families:
  - ipv4
needs: []
nodePortAddresses: []
values:
  ipv4:
    clusterCIDR: 10.244.0.0/16
`,
  ],
  [`${profile}/base/first.nft`, printNftTable({ detector: 'address', masqueradeAll: false })],
  [
    `${profile}/base/last.nft`,
    ['pods4', 'keep4'].map((name) => add(name, '${profile.clusterCIDR}')).join('') +
      add('node4', '${node.address}') +
      add('cidr4', '10.96.0.0/16'),
  ],
  [nftService('web'), web],
  [nftService('cart'), cart],
  [nftService('idle'), idle],
  [nftService('gate'), gate],
]);
