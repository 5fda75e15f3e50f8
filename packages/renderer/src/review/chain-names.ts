import type { Explanation } from './explanation.ts';

const meanings: Readonly<Record<string, string>> = {
  'KUBE-SVC': 'every usable endpoint of a Service port',
  'KUBE-SVL': 'the endpoints of a Service port on the node itself',
  'KUBE-EXT': 'what comes in through node ports, external and load-balancer addresses',
  'KUBE-FW': 'who may use the load-balancer addresses of a Service port',
  'KUBE-SEP': 'one endpoint of a Service port',
  'KUBE-SERVICES': 'where traffic to all Services starts',
  'KUBE-EXTERNAL-SERVICES': 'what is turned away at external addresses and node ports',
  'KUBE-NODEPORTS': 'node ports in table nat, health-check ports in table filter',
  'KUBE-POSTROUTING': 'masquerades packets that carry the mark',
  'KUBE-MARK-MASQ': 'marks packets that are to be masqueraded',
  'KUBE-FORWARD': 'lets forwarded packets of Services pass',
  'KUBE-PROXY-FIREWALL': 'drops what is outside the source ranges of a load balancer',
  'KUBE-FIREWALL': "keeps neighbours from the node's loopback addresses",
  'KUBE-NODE-PORT': 'in mode ipvs: whom node ports masquerade in table nat, health-check ports in table filter',
  'KUBE-LOAD-BALANCER': 'in mode ipvs: whom load-balancer addresses masquerade',
  'KUBE-SOURCE-RANGES-FIREWALL':
    'in mode ipvs: lets in who is in the source ranges of a load balancer, and drops the others',
  'KUBE-IPVS-FILTER': "in mode ipvs: turns away what no Service has at the Services' own addresses",
  'KUBE-IPVS-OUT-FILTER': 'in mode ipvs: keeps a node outside of the source ranges from a load balancer',
};

/** What a chain is for, by the name that files have. */
export function meaningOf(chain: string): string {
  return meanings[chain] ?? meanings[chain.split('-').slice(0, 2).join('-')] ?? 'a chain of the profile';
}

const ownForm = /^SLU-((?:SVC|SVL|EXT|FW|SEP)-[A-Z2-7]{16})\.[0-9a-z]{2}$/;

/** The name under which files have a chain: `KUBE-SVC-…` of `SLU-SVC-….1c`, `KUBE-SERVICES` of `SLUICE-SERVICES`. */
export function logicalName(chain: string): string {
  const own = ownForm.exec(chain)?.[1];
  if (own !== undefined) return `KUBE-${own}`;
  const shared = chain.replace(/^SLUICE-/, 'KUBE-');
  return Object.hasOwn(meanings, shared) ? shared : chain;
}

/** Base chains of mode ipvs, which has one layout, and those that layout `tree` has under both names, for CNI plugins. */
const inBoth: ReadonlySet<string> = new Set([
  'KUBE-NODE-PORT',
  'KUBE-LOAD-BALANCER',
  'KUBE-SOURCE-RANGES-FIREWALL',
  'KUBE-IPVS-FILTER',
  'KUBE-IPVS-OUT-FILTER',
  'KUBE-MARK-MASQ',
  'KUBE-POSTROUTING',
]);

/** Which layout has a chain under this name, and what the other one calls it. */
export function layoutOf(chain: string): Pick<Explanation, 'layout' | 'counterpart'> {
  const logical = logicalName(chain);
  if (logical !== chain) return { layout: 'tree', counterpart: logical };
  if (chain.startsWith('SLU')) return { layout: 'tree' };
  const own = /^KUBE-((?:SVC|SVL|EXT|FW|SEP)-[A-Z2-7]{16})$/.exec(chain)?.[1];
  if (own !== undefined) return { layout: 'flat', counterpart: `SLU-${own}.*` };
  if (!Object.hasOwn(meanings, chain) || inBoth.has(chain)) return {};
  return { layout: 'flat', counterpart: chain.replace(/^KUBE-/, 'SLUICE-') };
}
