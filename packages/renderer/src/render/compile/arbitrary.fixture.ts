import type { Family } from '@sluice/netfilter';
import fc from 'fast-check';
import type { Profile } from '../model/config.ts';
import type { Endpoint, Node, PerFamily, PortOfFamily, Protocol, ServicePort } from '../model/model.ts';
import { endpoint, inFamily, leaving, node, profileWith } from './sample.fixture.ts';

const addresses = {
  ipv4: ['10.244.1.1:80', '10.244.10.2:80', '10.244.2.3:80', '10.244.2.4:80'],
  ipv6: ['[fd00::1]:80', '[fd00::2]:80', '[fd00::3]:80', '[fd00::4]:80'],
} as const;
const nodeNames = ['node-0', 'node-1', 'node-2'] as const;
const zones = ['a', 'b'] as const;

const hintsFor = (places: readonly string[]): fc.Arbitrary<string[]> =>
  fc.oneof(
    { weight: 9, arbitrary: fc.subarray([...places], { minLength: 1 }) },
    { weight: 1, arbitrary: fc.constant<string[]>([]) },
  );
const someState = fc.record({
  state: fc.constantFrom({}, {}, {}, leaving, { ready: false }, { ready: false, serving: false, terminating: true }),
  nodeName: fc.constantFrom(...nodeNames, undefined),
  hintZones: hintsFor(zones),
  hintNodes: hintsFor(nodeNames),
});

/** Nearly all endpoints have hints, or none has, as the EndpointSlice controller writes them. */
const someEndpoints = (family: Family): fc.Arbitrary<Endpoint[]> =>
  fc
    .record({
      count: fc.nat({ max: 4 }),
      hints: fc.constantFrom('none', 'zones', 'nodes', 'both'),
      each: fc.tuple(...addresses.ipv4.map(() => someState)),
    })
    .map(({ count, hints, each }) =>
      each.slice(0, count).map(({ state, nodeName, hintZones, hintNodes }, n) =>
        endpoint(addresses[family][n]!, {
          ...(nodeName === undefined ? {} : { nodeName }),
          ...state,
          ...(hints === 'zones' || hints === 'both' ? { hintZones } : {}),
          ...(hints === 'nodes' || hints === 'both' ? { hintNodes } : {}),
        }),
      ),
    );
const someFamily = (family: Family): fc.Arbitrary<PortOfFamily> => {
  const pick = (v4: string, v6: string): string => (family === 'ipv4' ? v4 : v6);
  return fc
    .record({
      clusterIP: fc.constant(pick('10.96.0.1', 'fd00:96::1')),
      externalIPs: fc.subarray([pick('192.0.2.1', '2001:db8::1'), pick('192.0.2.3', '2001:db8::3')]),
      loadBalancerIPs: fc.subarray([pick('192.0.2.2', '2001:db8::2'), pick('192.0.2.4', '2001:db8::4')]),
      loadBalancerSourceRanges: fc.subarray([
        pick('198.51.100.0/24', '2001:db8:1::/64'),
        pick('192.0.2.0/24', '2001:db8::/64'),
      ]),
      endpoints: someEndpoints(family),
    })
    .map(inFamily);
};

const policy = fc.constantFrom('Cluster' as const, 'Local' as const);

/** A port of Service `shop/cart` in one family or both. */
export const somePort: fc.Arbitrary<ServicePort> = fc
  .record({
    protocol: fc.constantFrom<Protocol>('TCP', 'UDP', 'SCTP'),
    nodePort: fc.constantFrom(0, 30_080),
    healthCheckNodePort: fc.constantFrom(0, 32_000),
    internalTrafficPolicy: policy,
    externalTrafficPolicy: policy,
    affinity: fc.boolean(),
    ipv4: someFamily('ipv4'),
    ipv6: fc.option(someFamily('ipv6'), { nil: undefined }),
  })
  .map(({ affinity, ipv4, ipv6, ...rest }) => ({
    key: 'shop/cart:http',
    name: 'http',
    port: 80,
    ...rest,
    ...(affinity ? { affinitySeconds: 10_800 } : {}),
    families: { ipv4, ...(ipv6 ? { ipv6 } : {}) },
  }));

const perFamily = (ipv4: string, ipv6: string): fc.Arbitrary<PerFamily<string>> =>
  fc.constantFrom({}, { ipv4 }, { ipv6 }, { ipv4, ipv6 });

/** Three nodes: with or without zone, addresses and pod CIDRs. */
export const someNodes: fc.Arbitrary<Node[]> = fc.tuple(
  ...nodeNames.map((name) =>
    fc
      .record({
        zone: fc.constantFrom(...zones, undefined),
        address: perFamily('192.0.2.7', '2001:db8::7'),
        podCIDR: perFamily('10.244.1.0/24', 'fd00:10:244:1::/64'),
      })
      .map(({ zone, ...rest }) => node(name, { ...rest, ...(zone === undefined ? {} : { zone }) })),
  ),
);

export const someProfile: fc.Arbitrary<Profile> = fc
  .record({
    detectLocalMode: fc.constantFrom(
      'ClusterCIDR' as const,
      'NodeCIDR' as const,
      'BridgeInterface' as const,
      'InterfaceNamePrefix' as const,
    ),
    clusterCIDR: perFamily('10.244.0.0/16', 'fd00:10:244::/56'),
    families: fc.constantFrom<Family[]>(['ipv4', 'ipv6'], ['ipv4'], ['ipv6']),
    masqueradeAll: fc.boolean(),
    localhostNodePorts: fc.boolean(),
    AllowServiceExternalIPs: fc.boolean(),
    nodePortAddresses: fc.constantFrom<string[]>([], ['primary'], ['0.0.0.0/0'], ['localhost', 'primary']),
  })
  .map(({ masqueradeAll, localhostNodePorts, AllowServiceExternalIPs, ...rest }) =>
    profileWith({
      ...rest,
      featureGates: { AllowServiceExternalIPs },
      detectLocal: { bridgeInterface: 'cni0', interfaceNamePrefix: 'veth' },
      iptables: { masqueradeBit: 14, masqueradeAll, localhostNodePorts, randomFully: true },
    }),
  );
