import { flatName, isServiceChain } from '@sluice/netfilter';
import type { Explanation } from './explanation.ts';

const meanings: Readonly<Record<string, string>> = {
  'KUBE-SVC': 'every usable endpoint of a Service port',
  'KUBE-SVL': 'the endpoints of a Service port on the node itself',
  'KUBE-EXT': 'traffic to node ports, external and load-balancer addresses',
  'KUBE-FW': 'source ranges of the load-balancer addresses of a Service port',
  'KUBE-SEP': 'one endpoint of a Service port',
  'KUBE-SERVICES': 'entry point of traffic to Services',
  'KUBE-EXTERNAL-SERVICES': 'rejects or drops traffic to external addresses and node ports',
  'KUBE-NODEPORTS': 'node ports in table nat, health-check ports in table filter',
  'KUBE-POSTROUTING': 'masquerades packets that carry the mark',
  'KUBE-MARK-MASQ': 'marks packets for masquerading',
  'KUBE-FORWARD': 'accepts forwarded packets of Services',
  'KUBE-PROXY-FIREWALL': 'drops traffic from outside the source ranges of a load balancer',
  'KUBE-FIREWALL': "blocks access of other hosts to the node's loopback addresses",
  'KUBE-NODE-PORT': 'in mode ipvs: masquerading for node ports in table nat, health-check ports in table filter',
  'KUBE-LOAD-BALANCER': 'in mode ipvs: masquerading for load-balancer addresses',
  'KUBE-SOURCE-RANGES-FIREWALL':
    'in mode ipvs: accepts traffic from the source ranges of a load balancer, drops the rest',
  'KUBE-IPVS-FILTER': "in mode ipvs: rejects traffic to ports that no Service has at Services' addresses",
  'KUBE-IPVS-OUT-FILTER': 'in mode ipvs: blocks a node outside the source ranges from a load balancer',
};

/** The purpose of a chain. @param chain its name in bundle files */
export function meaningOf(chain: string): string {
  return meanings[chain] ?? meanings[chain.split('-').slice(0, 2).join('-')] ?? 'a chain of the profile';
}

/** The name of a chain in bundle files: `KUBE-SVC-…` of `SLU-SVC-….1c`, `KUBE-SERVICES` of `SLUICE-SERVICES`. */
export function logicalName(chain: string): string {
  const own = flatName(chain);
  if (own !== chain) return own;
  const shared = chain.replace(/^SLUICE-/, 'KUBE-');
  return Object.hasOwn(meanings, shared) ? shared : chain;
}

/** Chains with one name in both layouts: those of mode ipvs, which has one layout, and those that CNI plugins rely on. */
const inBoth: ReadonlySet<string> = new Set([
  'KUBE-NODE-PORT',
  'KUBE-LOAD-BALANCER',
  'KUBE-SOURCE-RANGES-FIREWALL',
  'KUBE-IPVS-FILTER',
  'KUBE-IPVS-OUT-FILTER',
  'KUBE-MARK-MASQ',
  'KUBE-POSTROUTING',
]);

/** The layout in which a chain has this name, and its name in the other layout. */
export function layoutOf(chain: string): Pick<Explanation, 'layout' | 'counterpart'> {
  const logical = logicalName(chain);
  if (logical !== chain) return { layout: 'tree', counterpart: logical };
  if (chain.startsWith('SLU')) return { layout: 'tree' };
  if (isServiceChain(chain)) return { layout: 'flat', counterpart: `${chain.replace(/^KUBE/, 'SLU')}.*` };
  if (!Object.hasOwn(meanings, chain) || inBoth.has(chain)) return {};
  return { layout: 'flat', counterpart: chain.replace(/^KUBE-/, 'SLUICE-') };
}
