import { printNftTable } from '../../../netfilter/src/nftables/table.ts';

const head = (kind: string): string => `apiVersion: sluice.dev/v1alpha1\nkind: ${kind}\n`;
const profilePath = 'profiles/default';
const element = (set: string, ...elements: readonly string[]): string =>
  `add element inet sluice ${set} { ${elements.join(', ')} }\n`;

/** Both families, the second by name alone. */
const lastBase = [
  element('pods4', '10.244.0.0/16'),
  element('keep4', '10.244.0.0/16'),
  element('node4', '${node.address}'),
  element('cidr4', '10.96.0.0/16'),
  element('pods6', 'fd00:10:244::/56'),
  element('keep6', 'fd00:10:244::/56'),
  element('node6', '${node.address}'),
].join('');

/** Every kind of frontend: of a ClusterIP, an external address with ranges and policy Local, a node port, IPv6; and session affinity. */
export const nftServices: Readonly<Record<string, string>> = {
  'shop/cart': [
    '# shop/cart ClusterIP\n',
    element('cluster4', '10.96.0.10'),
    element('svc4', '10.96.0.10 . tcp . 80 : goto n${count}', '10.96.0.10 . udp . 53 : goto n${count}'),
    element('none4', '10.96.0.10 . tcp . 80 : drop', '10.96.0.10 . udp . 53 : drop'),
    `@zone=a ${element('tcp4', '10.96.0.10 . 80 . ${slot} : 10.244.1.5 . 8080')}`,
    `@zone!=a ${element('tcp4', '10.96.0.10 . 80 . ${slot} : 10.244.2.7 . 8080')}`,
    `@zone=b ${element('udp4', '10.96.0.10 . 53 . ${slot} : 10.244.2.7 . 5353')}`,
    `@node=node-a ${element('loop4', '10.244.1.5 . 10.244.1.5')}`,
    element('cluster6', 'fd00:10:96::a'),
    element('svc6', 'fd00:10:96::a . tcp . 80 : goto n${count}'),
    element('tcp6', 'fd00:10:96::a . 80 . ${slot} : fd00:10:244::5 . 8080'),
  ].join(''),
  'shop/web': [
    '# shop/web LoadBalancer\n',
    element('cluster4', '10.96.0.30'),
    element(
      'svc4',
      '10.96.0.30 . tcp . 80 : goto n${count}',
      '203.0.113.9 . tcp . 80 : goto n${count}',
      '0.0.0.0 . tcp . 30090 : goto pn${count}',
    ),
    element('near4', '203.0.113.9 . tcp . 80', '0.0.0.0 . tcp . 30090'),
    element('out4', '203.0.113.9 . tcp . 80 : goto l${localCount}', '0.0.0.0 . tcp . 30090 : goto pl${localCount}'),
    element('none4', '203.0.113.9 . tcp . 80 : drop', '0.0.0.0 . tcp . 30090 : drop'),
    element('fw4', '203.0.113.9 . tcp . 80'),
    element('allow4', '203.0.113.9 . tcp . 80 . 198.51.100.0/25', '203.0.113.9 . tcp . 80 . 198.51.100.7'),
    `@ip-in=192.0.2.0/24 ${element('allow4', '203.0.113.9 . tcp . 80 . 203.0.113.9')}`,
    element('health4', '32090'),
    element(
      'tcp4',
      '10.96.0.30 . 80 . ${slot} : 10.244.1.5 . 8080',
      '203.0.113.9 . 80 . ${slot} : 10.244.1.5 . 8080',
      '0.0.0.0 . 30090 . ${slot} : 10.244.1.5 . 8080',
    ),
    `@node=node-a ${element(
      'tcp4',
      '203.0.113.9 . 80 . ${localSlot} : 10.244.1.5 . 8080',
      '0.0.0.0 . 30090 . ${localSlot} : 10.244.1.5 . 8080',
    )}`,
  ].join(''),
  'shop/sticky': [
    element('cluster4', '10.96.0.60'),
    element('svc4', '10.96.0.60 . tcp . 80 : goto s${count}t600', '0.0.0.0 . tcp . 30060 : goto ps${count}t600'),
    element('always4', '0.0.0.0 . tcp . 30060'),
    ...['10.244.1.5', '10.244.2.7'].map((pod) =>
      element('tcp4', `10.96.0.60 . 80 . \${slot} : ${pod} . 8080`, `0.0.0.0 . 30060 . \${slot} : ${pod} . 8080`),
    ),
  ].join(''),
  'shop/chosen': ['h${count}', 'i${count}', 'm251', 'm10007']
    .map((list, at) => {
      const address = `10.96.0.7${at}`;
      return [
        element('cluster4', address),
        element('svc4', `${address} . tcp . 80 : goto ${list}`),
        element('tcp4', `${address} . 80 . \${slot} : 10.244.1.5 . 8080`),
        element('tcp4', `${address} . 80 . \${slot:3} : 10.244.2.7 . 8080`),
      ].join('');
    })
    .join(''),
  'shop/empty': [element('cluster4', '10.96.0.40'), element('none4', '10.96.0.40 . tcp . 80 : goto refuse')].join(''),
};

/** A bundle in mode nftables with nodes node-a (zone a) and node-b (zone b). */
export function nftBundle(
  services: Readonly<Record<string, string>> = nftServices,
  base: { readonly first?: string; readonly last?: string } = {},
): ReadonlyMap<string, string> {
  const node = (name: string, zone: string, address: string): [string, string] => [
    `nodes/${name}/node.yaml`,
    `${head('Node')}profile: default\nzone: ${zone}\nvalues:\n  ipv4: { address: ${address} }\n  ipv6: { address: "fd00::11" }\n`,
  ];
  return new Map([
    ['cluster.yaml', `${head('Cluster')}format: 1\nname: shop\ncomplete: true\nserviceCIDRs: [10.96.0.0/16]\n`],
    node('node-a', 'a', '192.0.2.11'),
    node('node-b', 'b', '198.51.100.12'),
    [
      `${profilePath}/profile.yaml`,
      `${head('Profile')}mode: nftables\nfamilies: [ipv4, ipv6]\nneeds: []\nnodePortAddresses: []\nvalues: {}\n`,
    ],
    [`${profilePath}/base/first.nft`, base.first ?? printNftTable({ detector: 'address', masqueradeAll: false })],
    [`${profilePath}/base/last.nft`, base.last ?? lastBase],
    ...Object.entries(services).map(([name, text]) => [`${profilePath}/services/${name}.nft`, text] as const),
  ]);
}
