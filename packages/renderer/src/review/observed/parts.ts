import type { NotCovered, Observation } from '@sluice/bundle';
import type { Mode } from '@sluice/netfilter';
import { nodeOf } from '../bundle/node.ts';
import type { BundleView } from '../bundle/view.ts';

/** The modes whose rules or servers an observation has, in the order of preference. */
export function observedModes({ rules, servers, nftTables }: Observation): readonly Mode[] {
  const hasChains = rules.some(({ lines }) =>
    lines.some((line) => /^:(?:KUBE-SVC-|KUBE-SEP-|SLUICE-SERVICES )/.test(line)),
  );
  const hasTable = nftTables.some(({ name }) => name === 'kube-proxy' || name === 'sluice');
  return [
    ...(servers.length > 0 ? (['ipvs'] as const) : []),
    ...(hasTable ? (['nftables'] as const) : []),
    ...(hasChains || (servers.length === 0 && !hasTable) ? (['iptables'] as const) : []),
  ];
}

/** Parts of an observation that are missing, and whether a comparison needs them. */
export function missingParts(seen: Observation, view: BundleView, name: string): readonly NotCovered[] {
  const { families } = nodeOf(view, name).profile;
  const usesIpvs =
    seen.serverAddresses.ipv4.length + seen.serverAddresses.ipv6.length > 0 ||
    seen.rules.some(({ lines }) => lines.some((line) => line.includes('--match-set KUBE-')));
  return seen.missing.map(({ part, why }) => {
    const isRules = part.startsWith('rules-');
    const matters = isRules
      ? families.some((family) => part.endsWith(family))
      : part === 'nft-tables' || (part === 'servers' && usesIpvs);
    return { what: part, why, cases: 0, matters };
  });
}
