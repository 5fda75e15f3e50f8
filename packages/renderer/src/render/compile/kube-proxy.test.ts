import { isServiceChain, type ResolvedRules } from '@sluice/netfilter';
import { resolveNode, type ResolvedNode } from '@sluice/bundle';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { assemble } from '../assemble.ts';
import { someNodes, somePort, someProfile } from './arbitrary.fixture.ts';
import { kubeProxyRules } from './kube-proxy.fixture.ts';
import { configWith, serviceOf } from './sample.fixture.ts';

/** What one Service adds to a node's rules. Base chains and rules are in tests of their own. */
function ofService(rules: ResolvedRules): ResolvedRules {
  const own = (table: 'filter' | 'nat'): ResolvedRules['nat'] => ({
    chains: rules[table].chains.filter(isServiceChain),
    rules: rules[table].rules.filter((rule) => rule.includes('shop/cart') || rule.includes('-A KUBE-EXT-')),
  });
  return { filter: own('filter'), nat: own('nat') };
}

test('a node has the rules that kube-proxy would write there, in its order', () => {
  fc.assert(
    fc.property(somePort, someProfile, someNodes, (port, profile, nodes) => {
      const { files } = assemble({ nodes, services: [serviceOf([port])] }, configWith({ profiles: [profile] }), true);
      for (const node of nodes) {
        const resolved = resolveNode(files, node.name) as ResolvedNode;
        for (const family of profile.families) {
          const compiled = ofService(resolved.rules[family]!);
          expect(compiled).toEqual(kubeProxyRules(port, family, node, profile));
        }
      }
    }),
    runs(1_000),
  );
});
