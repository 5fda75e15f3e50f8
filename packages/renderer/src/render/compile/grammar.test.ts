import type { Family } from '@sluice/bundle';
import { readRule, readRuleFile, resolveNode } from '@sluice/bundle';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { assemble } from '../assemble.ts';
import type { Protocol, ServicePort } from '../model.ts';
import { configWith, endpoint, inFamily, leaving, node, profileWith, serviceOf } from './sample.fixture.ts';

const addresses = { ipv4: ['10.244.1.1:80', '10.244.2.2:80'], ipv6: ['[fd00::1]:80', '[fd00::2]:80'] } as const;

const someFamily = (family: Family) =>
  fc
    .record({
      external: fc.boolean(),
      balanced: fc.boolean(),
      ranged: fc.boolean(),
      states: fc.array(fc.constantFrom({}, leaving, { ready: false }), { maxLength: 2 }),
      hinted: fc.boolean(),
    })
    .map(({ external, balanced, ranged, states, hinted }) => {
      const pick = (v4: string, v6: string): string => (family === 'ipv4' ? v4 : v6);
      return inFamily({
        clusterIP: pick('10.96.0.1', 'fd00:96::1'),
        externalIPs: external ? [pick('192.0.2.1', '2001:db8::1')] : [],
        loadBalancerIPs: balanced ? [pick('192.0.2.2', '2001:db8::2')] : [],
        loadBalancerSourceRanges: ranged ? [pick('0.0.0.0/0', '::/0'), pick('192.0.2.0/24', '2001:db8::/64')] : [],
        endpoints: states.map((state, n) =>
          endpoint(addresses[family][n]!, {
            nodeName: `node-${n}`,
            ...state,
            ...(hinted ? { hintNodes: [`node-${n}`], hintZones: ['a'] } : {}),
          }),
        ),
      });
    });
const policy = fc.constantFrom('Cluster' as const, 'Local' as const);
const somePort: fc.Arbitrary<ServicePort> = fc
  .record({
    protocol: fc.constantFrom<Protocol>('TCP', 'UDP', 'SCTP'),
    nodePort: fc.constantFrom(0, 30_080),
    healthCheckNodePort: fc.constantFrom(0, 32_000),
    internalTrafficPolicy: policy,
    externalTrafficPolicy: policy,
    affinity: fc.boolean(),
    ipv4: someFamily('ipv4'),
    ipv6: someFamily('ipv6'),
  })
  .map(({ affinity, ipv4, ipv6, ...rest }) => ({
    key: 'shop/cart:http',
    name: 'http',
    port: 80,
    ...rest,
    ...(affinity ? { affinitySeconds: 10_800 } : {}),
    families: { ipv4, ipv6 },
  }));
const someProfile = fc
  .record({
    detectLocalMode: fc.constantFrom(
      'ClusterCIDR' as const,
      'NodeCIDR' as const,
      'BridgeInterface' as const,
      'InterfaceNamePrefix' as const,
    ),
    masqueradeAll: fc.boolean(),
    localhostNodePorts: fc.boolean(),
    nodePortAddresses: fc.constantFrom<string[]>([], ['primary'], ['0.0.0.0/0']),
  })
  .map(({ masqueradeAll, localhostNodePorts, ...rest }) =>
    profileWith({
      ...rest,
      detectLocal: { bridgeInterface: 'cni0', interfaceNamePrefix: 'veth' },
      iptables: { masqueradeBit: 14, masqueradeAll, localhostNodePorts, randomFully: true },
    }),
  );

/** Everything in a bundle that a node would refuse: files, rules, and chains that a rule leads to without their being there. */
function refusals(files: ReadonlyMap<string, string>, nodes: readonly string[]): readonly string[] {
  const unread = [...files]
    .filter(([path, text]) => /\.ip6?tables$/.test(path) && !('sections' in readRuleFile(path, text)))
    .map(([path]) => path);
  return [...unread, ...nodes.flatMap((name) => refusedRules(files, name))];
}

function refusedRules(files: ReadonlyMap<string, string>, name: string): readonly string[] {
  const resolved = resolveNode(files, name);
  if (!('rules' in resolved)) return [JSON.stringify(resolved)];
  return (['ipv4', 'ipv6'] as const).flatMap((family) =>
    Object.values(resolved.rules[family]!).flatMap(({ chains, rules }) =>
      rules.flatMap((text) => {
        const rule = readRule(text, family);
        if ('error' in rule) return [`${text}: ${rule.error}`];
        const led = / -j (KUBE-\S+)$/.exec(text)?.[1] ?? rule.chain;
        return chains.includes(rule.chain) && chains.includes(led) ? [] : [`${text}: a chain is not declared`];
      }),
    ),
  );
}

test('whatever is written, a node reads it: files, rules, and every chain that a rule leads to', () => {
  fc.assert(
    fc.property(somePort, someProfile, (port, profile) => {
      const names = ['node-0', 'node-1', 'node-2'];
      const nodes = names.map((name) =>
        node(name, { zone: 'a', address: { ipv4: '192.0.2.7' }, podCIDR: { ipv4: '10.244.0.0/24' } }),
      );
      const model = { nodes, services: [serviceOf([port])] };
      const { files } = assemble(model, configWith({ profiles: [profile] }), true);
      expect(refusals(files, names)).toEqual([]);
    }),
    { numRuns: 200, seed: 42 },
  );
});
