import { expect, test } from 'vitest';
import { type Family, type ResolvedRules, printSection } from '@sluice/netfilter';
import { resolveNode } from '@sluice/bundle';
import { filter as filterRules, nat as natRules } from '../../../../netfilter/src/link/cart.fixture.ts';
import { assemble } from '../assemble.ts';
import type { Profile } from '../model/config.ts';
import type { Endpoint, PortOfFamily, Service, ServicePort } from '../model/model.ts';
import { configWith, endpoint, inFamily, leaving, node, portWith, profileWith, serviceOf } from './sample.fixture.ts';

/** What kube-proxy writes about one Service that uses nearly everything. */
const workedExample = `*filter
:KUBE-SERVICES - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-FIREWALL - [0:0]
${filterRules}COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-EXT-I5LIAMPLWKMBJ54B - [0:0]
:KUBE-FW-I5LIAMPLWKMBJ54B - [0:0]
:KUBE-SVC-I5LIAMPLWKMBJ54B - [0:0]
:KUBE-SVL-I5LIAMPLWKMBJ54B - [0:0]
:KUBE-SEP-HR5QIAI7KRESNQ5F - [0:0]
:KUBE-SEP-BQDHVMWANCT6EYGM - [0:0]
:KUBE-SEP-ZNEKD56SUVBWUDHI - [0:0]
${natRules}COMMIT
`;

const endpoints = [
  endpoint('10.244.1.7:8080', { nodeName: 'node-1' }),
  endpoint('10.244.2.9:8080', { nodeName: 'node-2' }),
  endpoint('10.244.3.3:8080', { nodeName: 'node-3' }),
];
const v4 = inFamily({
  externalIPs: ['192.0.2.50'],
  loadBalancerIPs: ['203.0.113.9'],
  loadBalancerSourceRanges: ['198.51.100.0/24'],
  endpoints,
});
const v6 = inFamily({
  clusterIP: 'fd00:10:96::7',
  endpoints: [endpoint('[fd00:10:244:2::9]:8080', { nodeName: 'node-2' })],
});
const cartPort = portWith(v4, {
  nodePort: 30_080,
  healthCheckNodePort: 32_000,
  externalTrafficPolicy: 'Local',
  affinitySeconds: 600,
});

interface Change {
  readonly here?: Partial<PortOfFamily>;
  readonly port?: Partial<ServicePort>;
  readonly profile?: Partial<Profile>;
}

function cart({ here = {}, port = {} }: Change): Service {
  return serviceOf([{ ...cartPort, families: { ipv4: { ...v4, ...here }, ipv6: v6 }, ...port }], 'LoadBalancer');
}

/** What one of three nodes runs, from the bundle and back. node-3 has an address in the source range. */
function rulesOn(name: string, change: Change = {}, family: Family = 'ipv4'): ResolvedRules {
  const addresses = { 'node-1': '192.0.2.1', 'node-2': '192.0.2.2', 'node-3': '198.51.100.3', 'node-4': '192.0.2.4' };
  const nodes = Object.entries(addresses).map(([n, ipv4]) => node(n, { address: { ipv4 } }));
  const { files, problems } = assemble(
    { nodes, services: [cart(change)] },
    configWith({ profiles: [profileWith(change.profile)] }),
    true,
  );
  expect(problems).toEqual([]);
  const resolved = resolveNode(files, name);
  if (!('rules' in resolved)) throw new Error(JSON.stringify(resolved));
  return resolved.rules[family]!;
}

function print(rules: ResolvedRules): string {
  return (['filter', 'nat'] as const).map((table) => printSection({ table, ...rules[table] })).join('');
}

test('the worked example, byte for byte', () => {
  expect(print(rulesOn('node-2'))).toBe(workedExample);
});

/** The lines that a variant adds to the example (`+`) and removes from it (`-`). */
function difference(rules: ResolvedRules): readonly string[] {
  const lines = new Set(print(rules).split('\n'));
  const known = new Set(workedExample.split('\n'));
  return [
    ...[...known].filter((line) => !lines.has(line)).map((line) => `- ${line}`),
    ...[...lines].filter((line) => !known.has(line)).map((line) => `+ ${line}`),
  ];
}

const id = 'I5LIAMPLWKMBJ54B';
const verdict = (what: string, match: string, target: string): string =>
  `-m comment --comment "shop/cart:http ${what}" ${match} -j ${target}`;
const toNodePort = '-m addrtype --dst-type LOCAL -m tcp -p tcp --dport 30080';

test('a node without an endpoint has no local chain and drops external traffic', () => {
  const dropped = (match: string): string =>
    `+ -A KUBE-EXTERNAL-SERVICES ${verdict('has no local endpoints', match, 'DROP')}`;
  expect(difference(rulesOn('node-4'))).toEqual([
    `- :KUBE-SVL-${id} - [0:0]`,
    `- -A KUBE-EXT-${id} -j KUBE-SVL-${id}`,
    `- -A KUBE-SVL-${id} -m comment --comment "shop/cart:http -> 10.244.2.9:8080" -m recent --name KUBE-SEP-BQDHVMWANCT6EYGM --rcheck --seconds 600 --reap -j KUBE-SEP-BQDHVMWANCT6EYGM`,
    `- -A KUBE-SVL-${id} -m comment --comment "shop/cart:http -> 10.244.2.9:8080" -j KUBE-SEP-BQDHVMWANCT6EYGM`,
    dropped('-m tcp -p tcp -d 192.0.2.50 --dport 80'),
    dropped('-m tcp -p tcp -d 203.0.113.9 --dport 80'),
    dropped(toNodePort),
  ]);
});

test('without any endpoint table nat is empty, and all traffic is rejected', () => {
  const rules = rulesOn('node-2', { here: { endpoints: [] } });
  expect(rules.nat.rules.filter((rule) => rule.includes('shop/cart'))).toEqual([]);
  expect(rules.nat.chains).toEqual(['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-POSTROUTING', 'KUBE-MARK-MASQ']);
  const rejected = (chain: string, match: string): string =>
    `-A ${chain} ${verdict('has no endpoints', match, 'REJECT')}`;
  expect(rules.filter.rules.filter((rule) => rule.includes('shop/cart'))).toEqual([
    rejected('KUBE-SERVICES', '-m tcp -p tcp -d 10.96.7.1 --dport 80'),
    rejected('KUBE-EXTERNAL-SERVICES', '-m tcp -p tcp -d 192.0.2.50 --dport 80'),
    rejected('KUBE-EXTERNAL-SERVICES', '-m tcp -p tcp -d 203.0.113.9 --dport 80'),
    rejected('KUBE-EXTERNAL-SERVICES', toNodePort),
    '-A KUBE-NODEPORTS -m comment --comment "shop/cart:http health check node port" -m tcp -p tcp --dport 32000 -j ACCEPT',
  ]);
});

test('with external policy Cluster all external traffic is masqueraded and goes to the cluster chain', () => {
  const change = { port: { externalTrafficPolicy: 'Cluster', healthCheckNodePort: 0 } } as const;
  const rules = rulesOn('node-2', change);
  expect(rules.nat.rules.filter((rule) => rule.startsWith(`-A KUBE-EXT-${id}`))).toEqual([
    `-A KUBE-EXT-${id} -m comment --comment "masquerade traffic for shop/cart:http external destinations" -j KUBE-MARK-MASQ`,
    `-A KUBE-EXT-${id} -j KUBE-SVC-${id}`,
  ]);
  expect(print(rules)).not.toContain('KUBE-SVL-');
});

test('IPv6 has its own addresses, brackets and node-port tail', () => {
  const text = print(rulesOn('node-2', {}, 'ipv6'));
  expect(text).toContain('-m tcp -p tcp -d fd00:10:96::7 --dport 80 ! -s fd00:10:244::/56 -j KUBE-MARK-MASQ\n');
  expect(text).toContain('-s fd00:10:244:2::9 -j KUBE-MARK-MASQ\n');
  expect(text).toContain('--to-destination [fd00:10:244:2::9]:8080\n');
  expect(text).toContain('-m addrtype --dst-type LOCAL ! -d ::1/128 -j KUBE-NODEPORTS\n');
  expect(text).not.toContain('-A KUBE-FIREWALL');
  expect(text).not.toContain('10.96.');
});

test('a node in the source range may connect from the load-balancer address', () => {
  const firewall = rulesOn('node-3').nat.rules.filter((rule) => rule.startsWith(`-A KUBE-FW-${id}`));
  expect(firewall).toEqual([
    `-A KUBE-FW-${id} -m comment --comment "shop/cart:http loadbalancer IP" -s 198.51.100.0/24 -j KUBE-EXT-${id}`,
    `-A KUBE-FW-${id} -m comment --comment "shop/cart:http loadbalancer IP" -s 203.0.113.9 -j KUBE-EXT-${id}`,
    `-A KUBE-FW-${id} -m comment --comment "other traffic to shop/cart:http will be dropped by KUBE-PROXY-FIREWALL"`,
  ]);
});

test.each<[string, string, Change, readonly string[]]>([
  [
    'policy Local inside sends to the local chain',
    'node-1',
    { port: { internalTrafficPolicy: 'Local' } },
    [
      `-A KUBE-SERVICES ${verdict('cluster IP', '-m tcp -p tcp -d 10.96.7.1 --dport 80', `KUBE-SVL-${id}`)}`,
      `-A KUBE-SVL-${id} ${verdict('cluster IP', '-m tcp -p tcp -d 10.96.7.1 --dport 80 ! -s 10.244.0.0/16', 'KUBE-MARK-MASQ')}`,
    ],
  ],
  [
    'policy Local inside drops where no endpoint is',
    'node-4',
    { port: { internalTrafficPolicy: 'Local' } },
    [`-A KUBE-SERVICES ${verdict('has no local endpoints', '-m tcp -p tcp -d 10.96.7.1 --dport 80', 'DROP')}`],
  ],
])('%s', (_title, name, change, expected) => {
  const { filter, nat } = rulesOn(name, change);
  const inside = [...filter.rules, ...nat.rules].filter((rule) => rule.includes('-d 10.96.7.1'));
  expect(inside).toEqual(expected);
});

test.each<[string, readonly Endpoint[], string, readonly string[]]>([
  [
    'one that leaves serves its node',
    [endpoint('10.244.1.7:8080', { nodeName: 'node-1', ...leaving }), ...endpoints.slice(1)],
    'node-1',
    ['10.244.1.7:8080', '10.244.2.9:8080', '10.244.3.3:8080'],
  ],
  [
    'but no other node',
    [endpoint('10.244.1.7:8080', { nodeName: 'node-1', ...leaving }), ...endpoints.slice(1)],
    'node-2',
    ['10.244.2.9:8080', '10.244.3.3:8080'],
  ],
])('of endpoints, %s', (_title, list, name, expected) => {
  const text = print(rulesOn(name, { here: { endpoints: list } }));
  expect([...text.matchAll(/--to-destination (\S+)/g)].map((match) => match[1])).toEqual(expected);
});
