import { printGuard } from '@sluice/bundle';
import { expect, test } from 'vitest';
import type { PortOfFamily, ServicePort } from '../model/model.ts';
import { fleetOf } from '../select/guards.ts';
import { type ServiceOptions, compileService } from './iptables.ts';
import { chainNames } from '../model/chain-names.ts';
import { endpoint, portWith, serviceOf } from './sample.fixture.ts';

const one = { endpoints: [endpoint('10.244.1.7:8080', { nodeName: 'node-1' })] };
const local = { externalTrafficPolicy: 'Local', nodePort: 30_080 } as const;
const usual: ServiceOptions = { externalIPs: true, masqueradeAll: false, detectLocalMode: 'ClusterCIDR' };

/** The nat section's chains and rules, hash chains by kind, endpoints' chains by number. */
function natOf(here: Partial<PortOfFamily>, rest: Partial<ServicePort> = {}, options = usual) {
  const names = chainNames();
  const port = portWith(here, rest);
  const file = compileService(serviceOf([port]), 'ipv4', options, { names, fleet: fleetOf([]) });
  const short = new Map(
    (here.endpoints ?? []).map(({ text }, n) => [names.endpoint(port.key, port.protocol, text), `SEP${n + 1}`]),
  );
  const brief = (text: string): string =>
    text.replaceAll(/KUBE-(SVC|SVL|EXT|FW|SEP)-[A-Z2-7]{16}/g, (name, kind: string) => short.get(name) ?? kind);
  const nat = file?.sections.find((section) => section.table === 'nat');
  return {
    chains: (nat?.chains ?? []).map(brief),
    /** The rules of one chain, without its name. */
    rules: (chain: string): string[] =>
      (nat?.rules ?? [])
        .map(({ guard, text }) => ({ guard: guard ? `${brief(printGuard(guard))} ` : '', text: brief(text) }))
        .filter(({ text }) => text.startsWith(`-A ${chain} `))
        .map(({ guard, text }) => guard + text.slice(`-A ${chain} `.length).replaceAll('-m comment --comment ', '')),
  };
}

test.each<[string, ServiceOptions, string[]]>([
  ['ClusterCIDR', usual, ['! -s ${profile.clusterCIDR} ']],
  ['NodeCIDR', { ...usual, detectLocalMode: 'NodeCIDR' }, ['! -s ${node.podCIDR} ']],
  ['BridgeInterface', { ...usual, detectLocalMode: 'BridgeInterface' }, ['! -i ${profile.bridgeInterface} ']],
  [
    'InterfaceNamePrefix',
    { ...usual, detectLocalMode: 'InterfaceNamePrefix' },
    ['! -i ${profile.interfaceNamePrefix}+ '],
  ],
  ['any, with masqueradeAll', { ...usual, masqueradeAll: true }, ['']],
])('masquerades with detector %s', (_title, options, [match]) => {
  expect(natOf(one, {}, options).rules('SVC')[0]).toBe(
    `"shop/cart:http cluster IP" -m tcp -p tcp -d 10.96.7.1 --dport 80 ${match}-j KUBE-MARK-MASQ`,
  );
});

test('with internal policy Local the masquerade rule is in the local chain, before the endpoints', () => {
  const nat = natOf(one, { internalTrafficPolicy: 'Local' });
  expect(nat.rules('SVL')).toEqual([
    '@local=SVL "shop/cart:http cluster IP" -m tcp -p tcp -d 10.96.7.1 --dport 80 ! -s ${profile.clusterCIDR} -j KUBE-MARK-MASQ',
    '@node=node-1 "shop/cart:http -> 10.244.1.7:8080" -j SEP1',
  ]);
  expect(nat.chains).toEqual(['SVL', 'SEP1']);
});

test.each<[string, Partial<ServicePort>, ServiceOptions, string[]]>([
  [
    'policy Cluster',
    { nodePort: 30_080 },
    usual,
    ['"masquerade traffic for shop/cart:http external destinations" -j KUBE-MARK-MASQ', '-j SVC'],
  ],
  [
    'policy Local',
    local,
    usual,
    [
      '"pod traffic for shop/cart:http external destinations" -s ${profile.clusterCIDR} -j SVC',
      '"masquerade LOCAL traffic for shop/cart:http external destinations" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ',
      '"route LOCAL traffic for shop/cart:http external destinations" -m addrtype --src-type LOCAL -j SVC',
      '@local=SVL -j SVL',
    ],
  ],
  [
    'policy Local with an interface as detector',
    local,
    { ...usual, detectLocalMode: 'InterfaceNamePrefix' },
    [
      '"pod traffic for shop/cart:http external destinations" -i ${profile.interfaceNamePrefix}+ -j SVC',
      '"masquerade LOCAL traffic for shop/cart:http external destinations" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ',
      '"route LOCAL traffic for shop/cart:http external destinations" -m addrtype --src-type LOCAL -j SVC',
      '@local=SVL -j SVL',
    ],
  ],
  [
    'policy Local inside only',
    { nodePort: 30_080, internalTrafficPolicy: 'Local' },
    usual,
    ['"masquerade traffic for shop/cart:http external destinations" -j KUBE-MARK-MASQ', '-j SVC'],
  ],
  ['no external frontend', {}, usual, []],
])('external traffic, %s', (_title, rest, options, expected) => {
  expect(natOf(one, rest, options).rules('EXT')).toEqual(expected);
});

test('without an endpoint on any node, no rule jumps to a local chain', () => {
  const nat = natOf({ endpoints: [endpoint('10.244.1.7:8080')] }, local);
  expect(nat.rules('EXT').at(-1)).toContain('route LOCAL traffic');
  expect(nat.chains).toEqual(['EXT', 'SVC', 'SEP1']);
});

test('source ranges in the order of the Service, then the addresses for nodes in the ranges, then a final rule', () => {
  const here = {
    ...one,
    loadBalancerIPs: ['203.0.113.9', '203.0.113.10'],
    loadBalancerSourceRanges: ['198.51.100.0/24', '10.0.0.0/8'],
  };
  expect(natOf(here).rules('FW')).toEqual([
    '"shop/cart:http loadbalancer IP" -s 198.51.100.0/24 -j EXT',
    '"shop/cart:http loadbalancer IP" -s 10.0.0.0/8 -j EXT',
    '@ip-in=10.0.0.0/8,198.51.100.0/24 "shop/cart:http loadbalancer IP" -s 203.0.113.9 -j EXT',
    '@ip-in=10.0.0.0/8,198.51.100.0/24 "shop/cart:http loadbalancer IP" -s 203.0.113.10 -j EXT',
    '"other traffic to shop/cart:http will be dropped by KUBE-PROXY-FIREWALL"',
  ]);
});

test.each([
  [1, []],
  [2, ['0.5000000000']],
  [3, ['0.3333333333', '0.5000000000']],
  [7, ['0.1428571429', '0.1666666667', '0.2000000000', '0.2500000000', '0.3333333333', '0.5000000000']],
])('chooses each of %i endpoints with equal probability', (count, expected) => {
  const endpoints = Array.from({ length: count }, (_, n) => endpoint(`10.244.1.${n + 1}:80`));
  const rules = natOf({ endpoints }).rules('SVC').slice(1);
  expect(rules).toEqual(
    [...expected, undefined].map(
      (chance, n) =>
        `"shop/cart:http -> 10.244.1.${n + 1}:80" ${chance === undefined ? '' : `-m statistic --mode random --probability ${chance} `}-j SEP${n + 1}`,
    ),
  );
});

test('affinity checks every endpoint first', () => {
  const endpoints = [endpoint('10.244.1.7:80'), endpoint('10.244.1.8:80')];
  expect(natOf({ endpoints }, { affinitySeconds: 600 }).rules('SVC').slice(1)).toEqual([
    '"shop/cart:http -> 10.244.1.7:80" -m recent --name SEP1 --rcheck --seconds 600 --reap -j SEP1',
    '"shop/cart:http -> 10.244.1.8:80" -m recent --name SEP2 --rcheck --seconds 600 --reap -j SEP2',
    '"shop/cart:http -> 10.244.1.7:80" -m statistic --mode random --probability 0.5000000000 -j SEP1',
    '"shop/cart:http -> 10.244.1.8:80" -j SEP2',
  ]);
});

test('endpoint lists of zones have guards', () => {
  const endpoints = [endpoint('10.244.1.7:80', { hintZones: ['a'] }), endpoint('10.244.1.8:80', { hintZones: ['b'] })];
  expect(natOf({ endpoints }).rules('SVC').slice(1)).toEqual([
    '@zone=a "shop/cart:http -> 10.244.1.7:80" -j SEP1',
    '@zone=b "shop/cart:http -> 10.244.1.8:80" -j SEP2',
    '@zone!=a,b "shop/cart:http -> 10.244.1.7:80" -m statistic --mode random --probability 0.5000000000 -j SEP1',
    '@zone!=a,b "shop/cart:http -> 10.244.1.8:80" -j SEP2',
  ]);
});

test.each<[string, Partial<ServicePort>, string]>([
  ['TCP', {}, '-m tcp -p tcp -j DNAT --to-destination 10.244.1.7:8080'],
  ['UDP', { protocol: 'UDP' }, '-m udp -p udp -j DNAT --to-destination 10.244.1.7:8080'],
  ['SCTP', { protocol: 'SCTP' }, '-m sctp -p sctp -j DNAT --to-destination 10.244.1.7:8080'],
  [
    'affinity',
    { affinitySeconds: 5 },
    '-m recent --name SEP1 --set -m tcp -p tcp -j DNAT --to-destination 10.244.1.7:8080',
  ],
])('rules of an endpoint, %s', (_title, rest, last) => {
  expect(natOf(one, rest).rules('SEP1')).toEqual([
    'shop/cart:http -s 10.244.1.7 -j KUBE-MARK-MASQ',
    `shop/cart:http ${last}`,
  ]);
});

test('a Service without an address of the family has no file', () => {
  const surroundings = { names: chainNames(), fleet: fleetOf([]) };
  expect(compileService(serviceOf([portWith(one)]), 'ipv6', usual, surroundings)).toBeUndefined();
});
