import type { Guard } from '@sluice/bundle';
import { cidrContains, compareText, maglevSizeOf } from '@sluice/netfilter';
import type { GuardedLine } from '../lines.ts';
import { type AddElements, addingElements } from './elements.ts';
import { networkElements } from './networks.ts';
import { type Frontend, frontendsOf, type NftPort } from './port.ts';

/**
 * The lines about the frontends of a Service port: kube-proxy's `syncProxyRules` in `pkg/proxy/nftables/proxier.go`, whose rules in chains
 * of Services are elements here. Lines do not depend on whether there are endpoints, except what happens without.
 */
export function frontendLines(compiled: NftPort): readonly GuardedLine[] {
  const { port, here, family } = compiled;
  const add = addingElements(family);
  const frontends = frontendsOf(compiled);
  const near = frontends.filter(({ outside }) => outside === 'local');
  const always = frontends.filter(({ outside }) => outside === 'cluster');
  return [
    ...add('cluster', [here.clusterIP]),
    ...add('svc', frontends.map(dispatching(compiled, 'all'))),
    ...add('always', keysOf(always)),
    ...add('near', keysOf(near)),
    ...add('out', near.map(dispatching(compiled, 'local'))),
    ...noneLines(compiled, frontends, add),
    ...rangeLines(compiled, frontends, add),
    ...add('health', port.healthCheckNodePort === 0 ? [] : [String(port.healthCheckNodePort)]),
  ];
}

const keysOf = (frontends: readonly Frontend[]): readonly string[] => frontends.map(({ key }) => key);

const chains = {
  all: { plain: 'n', sticky: 's', l: '', count: '${count}' },
  local: { plain: 'l', sticky: 'r', l: 'l', count: '${localCount}' },
} as const;

/** `10.96.0.10 . tcp . 80 : goto n${count}` */
function dispatching(compiled: NftPort, list: keyof typeof chains): (frontend: Frontend) => string {
  const chain = chainOf(compiled, list);
  return ({ key, isNodePort }) => `${key} : goto ${isNodePort ? 'p' : ''}${chain}`;
}

/** The chain of a list, by how it chooses. A Maglev table has as many slots on every node. */
function chainOf({ port, scheduler }: NftPort, list: keyof typeof chains): string {
  const { plain, sticky, l, count } = chains[list];
  if (port.affinitySeconds !== undefined) return `${sticky}${count}t${port.affinitySeconds}`;
  if (scheduler === undefined) return `${plain}${count}`;
  const size = maglevSizeOf(scheduler);
  if (size !== undefined) return `m${l}${size}`;
  return `${scheduler === 'round-robin' ? 'i' : 'h'}${l}${count}`;
}

/** What happens to packets that no endpoint of the node's list serves. Left out where every node has the same endpoints. */
function noneLines(compiled: NftPort, frontends: readonly Frontend[], add: AddElements): readonly GuardedLine[] {
  const { cluster, hasAny } = compiled.selection;
  const isServedEverywhere = cluster.length === 1 && cluster[0]!.guard === undefined;
  const verdict = hasAny ? 'drop' : 'goto refuse';
  return add(
    'none',
    frontends
      .filter(({ list, outside }) => list === 'local' || outside === 'local' || !isServedEverywhere)
      .map(({ key }) => `${key} : ${verdict}`),
  );
}

/** The sources of restricted frontends. A node inside of the ranges may have a load-balancer address, and connect from it. */
function rangeLines({ here }: NftPort, frontends: readonly Frontend[], add: AddElements): readonly GuardedLine[] {
  const restricted = frontends.filter(({ isRestricted }) => isRestricted);
  if (restricted.length === 0) return [];
  const ranges = here.loadBalancerSourceRanges;
  const own: Guard = { kind: 'ip-in', negated: false, values: [...new Set(ranges)].toSorted(compareText) };
  const outsideRanges = here.loadBalancerIPs.filter((address) => !ranges.some((range) => cidrContains(range, address)));
  const sources = (texts: readonly string[]): readonly string[] =>
    restricted.flatMap(({ key }) => texts.map((text) => `${key} . ${text}`));
  return [
    ...add('fw', keysOf(restricted)),
    ...add('allow', sources(networkElements(ranges))),
    ...add('allow', sources(outsideRanges), own),
  ];
}
