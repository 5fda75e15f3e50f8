import { type GuardedRule, printGuard } from '@sluice/bundle';
import { expect, test } from 'vitest';
import type { PortOfFamily, ServicePort } from '../model/model.ts';
import { fleetOf } from '../select/guards.ts';
import { compileService } from './iptables.ts';
import { chainNames } from '../model/chain-names.ts';
import { endpoint, inFamily, portWith, serviceOf } from './sample.fixture.ts';

const some = { endpoints: [endpoint('10.244.1.7:8080', { nodeName: 'node-1' })] };
const unplaced = { endpoints: [endpoint('10.244.1.7:8080')] };
const local = { externalTrafficPolicy: 'Local' } as const;
const localInside = { internalTrafficPolicy: 'Local' } as const;
const v6 = inFamily({
  clusterIP: 'fd00:96::7',
  externalIPs: ['2001:db8::50'],
  endpoints: [endpoint('[fd00::5]:8080', { nodeName: 'node-1' })],
});

/**
 * The rules in shared chains, `SVC` for the hash chains of the port, and without what never differs (`-m comment --comment`).
 * @param family whose rules; the port's own IPv6 part is `v6`
 */
function rulesOf(here: Partial<PortOfFamily>, rest: Partial<ServicePort>, family: 'ipv4' | 'ipv6' = 'ipv4'): string[] {
  const port = { ...portWith(here, rest), families: { ipv4: inFamily(here), ipv6: v6 } };
  const options = { externalIPs: true, masqueradeAll: false, detectLocalMode: 'ClusterCIDR' } as const;
  const file = compileService(serviceOf([port]), family, options, { names: chainNames(), fleet: fleetOf([]) });
  const print = ({ guard, text }: GuardedRule): string => (guard ? `${printGuard(guard)} ${text}` : text);
  return file!.sections
    .flatMap(({ table, rules }) => rules.map((rule) => `${table} ${print(rule)}`))
    .filter((text) => / -A KUBE-(SERVICES|EXTERNAL-SERVICES|NODEPORTS|PROXY-FIREWALL) /.test(text))
    .map((text) => text.replaceAll(/KUBE-(\w+)-[A-Z2-7]{16}/g, '$1').replace('-m comment --comment ', ''));
}

test.each<[string, Partial<PortOfFamily>, Partial<ServicePort>, string[]]>([
  [
    'endpoints: to the cluster chain',
    some,
    {},
    ['nat -A KUBE-SERVICES "shop/cart:http cluster IP" -m tcp -p tcp -d 10.96.7.1 --dport 80 -j SVC'],
  ],
  [
    'UDP',
    some,
    { protocol: 'UDP' },
    ['nat -A KUBE-SERVICES "shop/cart:http cluster IP" -m udp -p udp -d 10.96.7.1 --dport 80 -j SVC'],
  ],
  [
    'SCTP',
    some,
    { protocol: 'SCTP', port: 2905 },
    ['nat -A KUBE-SERVICES "shop/cart:http cluster IP" -m sctp -p sctp -d 10.96.7.1 --dport 2905 -j SVC'],
  ],
  [
    'a port without a name',
    some,
    { key: 'shop/cart', name: '' },
    ['nat -A KUBE-SERVICES "shop/cart cluster IP" -m tcp -p tcp -d 10.96.7.1 --dport 80 -j SVC'],
  ],
  [
    'policy Local decides node by node',
    some,
    localInside,
    [
      'filter @nolocal=SVL -A KUBE-SERVICES "shop/cart:http has no local endpoints" -m tcp -p tcp -d 10.96.7.1 --dport 80 -j DROP',
      'nat @local=SVL -A KUBE-SERVICES "shop/cart:http cluster IP" -m tcp -p tcp -d 10.96.7.1 --dport 80 -j SVL',
    ],
  ],
  [
    'policy Local, and no node has an endpoint',
    unplaced,
    localInside,
    ['filter -A KUBE-SERVICES "shop/cart:http has no local endpoints" -m tcp -p tcp -d 10.96.7.1 --dport 80 -j DROP'],
  ],
  [
    'no endpoints: rejected',
    {},
    {},
    ['filter -A KUBE-SERVICES "shop/cart:http has no endpoints" -m tcp -p tcp -d 10.96.7.1 --dport 80 -j REJECT'],
  ],
  [
    'no endpoints: rejected, policy Local or not',
    {},
    localInside,
    ['filter -A KUBE-SERVICES "shop/cart:http has no endpoints" -m tcp -p tcp -d 10.96.7.1 --dport 80 -j REJECT'],
  ],
])('cluster address, %s', (_title, here, rest, expected) => {
  expect(rulesOf(here, rest)).toEqual(expected);
});

/** Without the rules for the cluster address. */
const outside = (...of: Parameters<typeof rulesOf>): string[] =>
  rulesOf(...of).filter((rule) => !rule.includes('-d 10.96.7.1'));

const externalIPs = { externalIPs: ['192.0.2.50', '192.0.2.51'] };
const vips = { loadBalancerIPs: ['203.0.113.9'] };
const ranges = { loadBalancerSourceRanges: ['198.51.100.0/24'] };

test.each<[string, Partial<PortOfFamily>, Partial<ServicePort>, string[]]>([
  [
    'external addresses in their order',
    { ...some, ...externalIPs },
    {},
    [
      'nat -A KUBE-SERVICES "shop/cart:http external IP" -m tcp -p tcp -d 192.0.2.50 --dport 80 -j EXT',
      'nat -A KUBE-SERVICES "shop/cart:http external IP" -m tcp -p tcp -d 192.0.2.51 --dport 80 -j EXT',
    ],
  ],
  [
    'external address, policy Local',
    { ...some, externalIPs: ['192.0.2.50'] },
    local,
    [
      'filter @nolocal=SVL -A KUBE-EXTERNAL-SERVICES "shop/cart:http has no local endpoints" -m tcp -p tcp -d 192.0.2.50 --dport 80 -j DROP',
      'nat -A KUBE-SERVICES "shop/cart:http external IP" -m tcp -p tcp -d 192.0.2.50 --dport 80 -j EXT',
    ],
  ],
  [
    'external address, policy Local, and no node has an endpoint',
    { ...unplaced, externalIPs: ['192.0.2.50'] },
    local,
    [
      'filter -A KUBE-EXTERNAL-SERVICES "shop/cart:http has no local endpoints" -m tcp -p tcp -d 192.0.2.50 --dport 80 -j DROP',
      'nat -A KUBE-SERVICES "shop/cart:http external IP" -m tcp -p tcp -d 192.0.2.50 --dport 80 -j EXT',
    ],
  ],
  [
    'external address without endpoints',
    { externalIPs: ['192.0.2.50'] },
    {},
    [
      'filter -A KUBE-EXTERNAL-SERVICES "shop/cart:http has no endpoints" -m tcp -p tcp -d 192.0.2.50 --dport 80 -j REJECT',
    ],
  ],
  [
    'load-balancer address open to all',
    { ...some, ...vips },
    {},
    ['nat -A KUBE-SERVICES "shop/cart:http loadbalancer IP" -m tcp -p tcp -d 203.0.113.9 --dport 80 -j EXT'],
  ],
  [
    'load-balancer address with source ranges',
    { ...some, ...vips, ...ranges },
    {},
    [
      'filter -A KUBE-PROXY-FIREWALL "shop/cart:http traffic not accepted by FW" -m tcp -p tcp -d 203.0.113.9 --dport 80 -j DROP',
      'nat -A KUBE-SERVICES "shop/cart:http loadbalancer IP" -m tcp -p tcp -d 203.0.113.9 --dport 80 -j FW',
    ],
  ],
  [
    'source ranges and policy Local',
    { ...some, ...vips, ...ranges },
    local,
    [
      'filter -A KUBE-PROXY-FIREWALL "shop/cart:http traffic not accepted by FW" -m tcp -p tcp -d 203.0.113.9 --dport 80 -j DROP',
      'filter @nolocal=SVL -A KUBE-EXTERNAL-SERVICES "shop/cart:http has no local endpoints" -m tcp -p tcp -d 203.0.113.9 --dport 80 -j DROP',
      'nat -A KUBE-SERVICES "shop/cart:http loadbalancer IP" -m tcp -p tcp -d 203.0.113.9 --dport 80 -j FW',
    ],
  ],
  [
    'without endpoints no source range matters',
    { ...vips, ...ranges },
    {},
    [
      'filter -A KUBE-EXTERNAL-SERVICES "shop/cart:http has no endpoints" -m tcp -p tcp -d 203.0.113.9 --dport 80 -j REJECT',
    ],
  ],
  [
    'source ranges guard nothing but load-balancer addresses',
    { ...some, externalIPs: ['192.0.2.50'], ...ranges },
    {},
    ['nat -A KUBE-SERVICES "shop/cart:http external IP" -m tcp -p tcp -d 192.0.2.50 --dport 80 -j EXT'],
  ],
  [
    'node port, its comment in one word',
    some,
    { nodePort: 30_080 },
    ['nat -A KUBE-NODEPORTS shop/cart:http -m tcp -p tcp --dport 30080 -j EXT'],
  ],
  [
    'node port, policy Local',
    some,
    { nodePort: 30_080, ...local },
    [
      'filter @nolocal=SVL -A KUBE-EXTERNAL-SERVICES "shop/cart:http has no local endpoints" -m addrtype --dst-type LOCAL -m tcp -p tcp --dport 30080 -j DROP',
      'nat -A KUBE-NODEPORTS shop/cart:http -m tcp -p tcp --dport 30080 -j EXT',
    ],
  ],
  [
    'node port without endpoints',
    {},
    { nodePort: 30_080 },
    [
      'filter -A KUBE-EXTERNAL-SERVICES "shop/cart:http has no endpoints" -m addrtype --dst-type LOCAL -m tcp -p tcp --dport 30080 -j REJECT',
    ],
  ],
  [
    'policy Local inside leaves the way from outside alone',
    some,
    { nodePort: 30_080, ...localInside },
    ['nat -A KUBE-NODEPORTS shop/cart:http -m tcp -p tcp --dport 30080 -j EXT'],
  ],
  [
    'health-check node port, over TCP whatever the port is',
    { ...some },
    { protocol: 'UDP', healthCheckNodePort: 32_000 },
    ['filter -A KUBE-NODEPORTS "shop/cart:http health check node port" -m tcp -p tcp --dport 32000 -j ACCEPT'],
  ],
  [
    'health-check node port without endpoints',
    {},
    { healthCheckNodePort: 32_000 },
    ['filter -A KUBE-NODEPORTS "shop/cart:http health check node port" -m tcp -p tcp --dport 32000 -j ACCEPT'],
  ],
  ['no external frontend: no rules', some, local, []],
])('external traffic, %s', (_title, here, rest, expected) => {
  expect(outside(here, rest)).toEqual(expected);
});

test('each family has its own addresses and endpoints: rejected in one, served in the other', () => {
  expect(rulesOf({}, {})).toEqual([
    'filter -A KUBE-SERVICES "shop/cart:http has no endpoints" -m tcp -p tcp -d 10.96.7.1 --dport 80 -j REJECT',
  ]);
  expect(rulesOf({}, {}, 'ipv6')).toEqual([
    'nat -A KUBE-SERVICES "shop/cart:http cluster IP" -m tcp -p tcp -d fd00:96::7 --dport 80 -j SVC',
    'nat -A KUBE-SERVICES "shop/cart:http external IP" -m tcp -p tcp -d 2001:db8::50 --dport 80 -j EXT',
  ]);
});
