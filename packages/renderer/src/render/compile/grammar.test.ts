import { type Family, readRule } from '@sluice/netfilter';
import { readRuleFile, resolveNode } from '@sluice/bundle';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { assemble } from '../assemble.ts';
import { someNodes, somePort, someProfile } from './arbitrary.fixture.ts';
import { configWith, serviceOf } from './sample.fixture.ts';

/** Everything in a bundle that a node would refuse: files, rules, and chains that a rule leads to without their being there. */
function refusals(files: ReadonlyMap<string, string>, nodes: readonly string[]): readonly string[] {
  const unread = [...files]
    .filter(([path, text]) => /\.ip6?tables$/.test(path) && !('sections' in readRuleFile(path, text)))
    .map(([path]) => path);
  return [...unread, ...nodes.flatMap((name) => refusedRules(files, name))];
}

const hostAddress = { ipv4: '192.0.2.7', ipv6: '2001:db8::7' } as const;

function refusedRules(files: ReadonlyMap<string, string>, name: string): readonly string[] {
  const resolved = resolveNode(files, name);
  if (!('rules' in resolved)) return [JSON.stringify(resolved)];
  return Object.entries(resolved.rules).flatMap(([family, tables]) =>
    Object.values(tables).flatMap(({ chains, rules }) =>
      rules.flatMap((written) => {
        const text = written.replace('${host.nodePortAddresses}', hostAddress[family as Family]);
        const rule = readRule(text, family as Family);
        if ('error' in rule) return [`${text}: ${rule.error}`];
        const led = / -j (KUBE-\S+)$/.exec(text)?.[1] ?? rule.chain;
        return chains.includes(rule.chain) && chains.includes(led) ? [] : [`${text}: a chain is not declared`];
      }),
    ),
  );
}

test('nodes can read all output: files, rules, and every target chain of a rule', () => {
  fc.assert(
    fc.property(somePort, someProfile, someNodes, (port, profile, nodes) => {
      const { files } = assemble({ nodes, services: [serviceOf([port])] }, configWith({ profiles: [profile] }), true);
      const names = nodes.map(({ name }) => name);
      expect(refusals(files, names)).toEqual([]);
    }),
    runs(200),
  );
});
