import { expect, test } from 'vitest';
import { resolveNode } from './node.ts';

const own = `KUBE-SVC-${'A'.repeat(16)}`;
const foreign = `KUBE-SVC-${'B'.repeat(16)}`;

const documents: readonly [string, string][] = [
  ['cluster.yaml', 'kind: Cluster\nformat: 1\nname: shop\ncomplete: true\nserviceCIDRs: []\n'],
  [
    'profiles/default/profile.yaml',
    'kind: Profile\nmode: iptables\nfamilies: [ipv4]\nneeds: []\nnodePortAddresses: []\nvalues: { bridgeInterface: KUBE-FORWARD }\n',
  ],
  ['nodes/node-a/node.yaml', 'kind: Node\nprofile: default\nvalues: {}\n'],
];

/** The problems of a bundle with one rule file. */
function refusals(path: string, table: string, chains: readonly string[], ...rules: readonly string[]): string[] {
  const text = `*${table}\n${chains.map((chain) => `:${chain} - [0:0]\n`).join('')}${rules.map((rule) => `${rule}\n`).join('')}COMMIT\n`;
  const files = new Map(documents.map(([name, body]) => [name, `apiVersion: sluice.dev/v1alpha1\n${body}`]));
  const found = resolveNode(files.set(`profiles/default/${path}`, text), 'node-a');
  return 'version' in found ? [] : found.map(({ code, message }) => `${code} ${message}`);
}
const service = 'services/shop/web.iptables';

test.each([
  ['its own chains', 'nat', [own], [`-A KUBE-SERVICES -j ${own}`, `-A ${own} -j KUBE-MARK-MASQ`]],
  ['the node ports', 'nat', [own], [`-A KUBE-NODEPORTS -j ${own}`]],
  ['the chains that turn traffic away', 'filter', [], ['-A KUBE-EXTERNAL-SERVICES -j DROP']],
  ['the firewall of load-balancer addresses', 'filter', [], ['-A KUBE-PROXY-FIREWALL -j DROP']],
  ['a rule without target', 'nat', [own], [`-A KUBE-SERVICES -j ${own}`, `-A ${own} -m comment --comment "the end"`]],
])('the file of a Service may have %s', (_title, table, chains, rules) => {
  expect(refusals(service, table, chains, ...rules)).toEqual([]);
});

test.each([
  ['append to the masquerading', 'nat', [], '-A KUBE-POSTROUTING -j ACCEPT', 'append to nat chain KUBE-POSTROUTING'],
  ['change who is marked', 'nat', [], '-A KUBE-MARK-MASQ -j RETURN', 'append to nat chain KUBE-MARK-MASQ'],
  ['append to forwarding', 'filter', [], '-A KUBE-FORWARD -j DROP', 'append to filter chain KUBE-FORWARD'],
  ['append to the firewall', 'filter', [], '-A KUBE-FIREWALL -j ACCEPT', 'append to filter chain KUBE-FIREWALL'],
  ['append to a built-in chain', 'filter', [], '-A INPUT -j ACCEPT', 'append to filter chain INPUT'],
  ['append to a chain of another Service', 'nat', [], `-A ${foreign} -j RETURN`, `append to nat chain ${foreign}`],
  ['jump to another Service', 'nat', [], `-A KUBE-SERVICES -j ${foreign}`, `jump to nat chain ${foreign}`],
  ['goto another Service', 'nat', [], `-A KUBE-SERVICES -g ${foreign}`, `jump to nat chain ${foreign}`],
  ['jump to masquerading', 'nat', [], '-A KUBE-SERVICES -j KUBE-POSTROUTING', 'jump to nat chain KUBE-POST'],
  ['hide a jump before a comment', 'nat', [], `-A KUBE-SERVICES -j ${foreign} -m comment --comment "x -j y"`, 'y"'],
  ['name a chain by a variable', 'nat', [], '-A ${profile.bridgeInterface} -j ACCEPT', 'append to nat chain KUBE-FORW'],
  [
    'name a target by a variable',
    'nat',
    [],
    '-A KUBE-SERVICES -j ${profile.bridgeInterface}',
    'jump to nat chain KUBE-F',
  ],
  [
    'leave a name to the machine',
    'nat',
    [],
    '-A KUBE-SERVICES -j ${host.nodePortAddresses}',
    'jump to nat chain ${host',
  ],
] as const)('the file of a Service must not %s', (_title, table, chains, rule, reason) => {
  const found = refusals(service, table, chains, rule);
  expect(found).toHaveLength(1);
  expect(found[0]).toMatch(/^RULE_REFUSED /);
  expect(found[0]).toContain(reason);
});

test.each([
  ['a base chain', 'nat', 'KUBE-SERVICES'],
  ['a chain of the kubelet', 'nat', 'KUBE-KUBELET-CANARY'],
  ['a chain in filter', 'filter', own],
])('the file of a Service must not declare %s', (_title, table, chain) => {
  const rule = `-A KUBE-SERVICES -j ${chain}`;
  expect(refusals(service, table, [chain], rule)[0]).toContain(`chain ${chain} of profiles/default/${service}`);
});

test.each([
  ['declare a chain of a Service', [own], '-A KUBE-SERVICES -j RETURN', 'not a base chain'],
  ['jump to a chain of a Service', [], `-A KUBE-SERVICES -j ${own}`, `jump to nat chain ${own}`],
  ['append to a built-in chain', [], '-A PREROUTING -j ACCEPT', 'append to nat chain PREROUTING'],
])('a base file must not %s', (_title, chains, rule, reason) => {
  expect(refusals('base/first.iptables', 'nat', chains, rule)[0]).toContain(reason);
});
