import { type BundleFiles, resolveNode } from '@sluice/bundle';
import { isRuleError, readRule } from '@sluice/netfilter';
import type { SluicedConfig } from '../config.ts';
import { familyNames } from '../ports/node-state.ts';
import type { NodeFacts } from '../ports/node-facts.ts';

/** A Service address of this node's own. */
export interface AddressClash {
  readonly address: string;
  readonly cluster: boolean;
}

/** Service addresses that are also on an interface of this node: the node would answer for the Service, or lose its own address. */
export function addressClashes(config: SluicedConfig, files: BundleFiles, facts: NodeFacts): readonly AddressClash[] {
  const resolved = resolveNode(files, config.node);
  if (!('version' in resolved)) return [];
  const own = new Set([...facts.addresses.ipv4, ...facts.addresses.ipv6]);
  const found = new Map<string, AddressClash>();
  for (const family of familyNames) {
    for (const text of resolved.rules[family]?.nat.rules ?? []) {
      const rule = readRule(text, family);
      if (isRuleError(rule) || rule.chain !== 'KUBE-SERVICES') continue;
      // A rule for all but one address, such as that of node ports for all but ::1, is not for a Service with that address.
      if (rule.destination?.negated === true) continue;
      const address = rule.destination?.value.replace(/\/(32|128)$/, '');
      if (address === undefined || !own.has(address)) continue;
      // kube-proxy's comments tell the kind of an address.
      const cluster = rule.matches.some((match) => match.kind === 'comment' && match.text.endsWith(' cluster IP'));
      found.set(address, { address, cluster: cluster || found.get(address)?.cluster === true });
    }
  }
  return [...found.values()];
}
