import type { GuardedRule } from '@sluice/bundle';
import { compareText } from '@sluice/netfilter';
import type { Endpoint } from '../model/model.ts';
import type { Variant } from '../select/fleet.ts';
import {
  type CompiledPort,
  addressMatch,
  comment,
  externalTarget,
  internalTarget,
  protocolMatch,
  ruleWhere,
  usesExternalChain,
  usesFirewallChain,
} from './port.ts';

/** The chains that a Service port has on at least one node, in kube-proxy's order of rules. */
export function chainsOf(compiled: CompiledPort): readonly string[] {
  const { chains, selection, endpointChains } = compiled;
  return [
    ...(usesExternalChain(compiled) ? [chains.external] : []),
    ...(usesFirewallChain(compiled) ? [chains.firewall] : []),
    ...(selection.cluster.length > 0 ? [chains.cluster] : []),
    ...(selection.local.length > 0 ? [chains.local] : []),
    ...endpointChains.values(),
  ];
}

/** The rules in a Service port's own chains, in the order of kube-proxy's `syncProxyRules`. */
export function chainRules(compiled: CompiledPort): readonly GuardedRule[] {
  const { chains, selection } = compiled;
  return [
    ...masqueradeRules(compiled),
    ...(usesExternalChain(compiled) ? externalRules(compiled) : []),
    ...(usesFirewallChain(compiled) ? firewallRules(compiled) : []),
    ...selection.cluster.flatMap((variant) => dispatchRules(compiled, chains.cluster, variant)),
    ...selection.local.flatMap((variant) => dispatchRules(compiled, chains.local, variant)),
    ...selection.all.flatMap((endpoint) => endpointRules(compiled, endpoint)),
  ];
}

/** Traffic to the ClusterIP from outside the cluster is masqueraded, so that replies return through this node. */
function masqueradeRules(compiled: CompiledPort): readonly GuardedRule[] {
  const { port, here, masqueradeAll, detector } = compiled;
  const { chain, served } = internalTarget(compiled);
  const match = addressMatch(compiled, here.clusterIP);
  const who = masqueradeAll ? '' : `${detector.ifNotLocal} `;
  return ruleWhere(served, `-A ${chain} ${comment(`${port.key} cluster IP`)} ${match} ${who}-j KUBE-MARK-MASQ`);
}

/** Rules for external traffic. With policy Local only the node and its pods may reach endpoints on other nodes. */
function externalRules(compiled: CompiledPort): readonly GuardedRule[] {
  const { port, chains, detector } = compiled;
  const { chain, served } = externalTarget(compiled);
  const append = (what: string, rest: string): GuardedRule => ({
    text: `-A ${chains.external} ${comment(`${what} for ${port.key} external destinations`)} ${rest}`,
  });
  const sources =
    port.externalTrafficPolicy === 'Local'
      ? [
          append('pod traffic', `${detector.ifLocal} -j ${chains.cluster}`),
          append('masquerade LOCAL traffic', '-m addrtype --src-type LOCAL -j KUBE-MARK-MASQ'),
          append('route LOCAL traffic', `-m addrtype --src-type LOCAL -j ${chains.cluster}`),
        ]
      : [append('masquerade traffic', '-j KUBE-MARK-MASQ')];
  return [...sources, ...ruleWhere(served, `-A ${chains.external} -j ${chain}`)];
}

/** Rules that admit the source ranges of load-balancer addresses. */
function firewallRules(compiled: CompiledPort): readonly GuardedRule[] {
  const { port, here, chains } = compiled;
  const open = `-A ${chains.firewall} ${comment(`${port.key} loadbalancer IP`)} -s`;
  const ranges = here.loadBalancerSourceRanges;
  // A node that has the address on an interface connects to it from the same address.
  const own = { kind: 'ip-in', negated: false, values: [...new Set(ranges)].toSorted(compareText) } as const;
  return [
    ...ranges.map((range) => ({ text: `${open} ${range} -j ${chains.external}` })),
    ...here.loadBalancerIPs.map((address) => ({ guard: own, text: `${open} ${address} -j ${chains.external}` })),
    {
      text: `-A ${chains.firewall} ${comment(`other traffic to ${port.key} will be dropped by KUBE-PROXY-FIREWALL`)}`,
    },
  ];
}

/** Rules that choose an endpoint at random; with affinity the client's last one first. */
function dispatchRules(compiled: CompiledPort, chain: string, { guard, endpoints }: Variant): readonly GuardedRule[] {
  const { port, endpointChains } = compiled;
  const names = endpoints.map((endpoint) => endpointChains.get(endpoint.text)!);
  const append = (index: number, match: string): GuardedRule => {
    const about = comment(`${port.key} -> ${endpoints[index]!.text}`);
    const text = `-A ${chain} ${about}${match} -j ${names[index]!}`;
    return guard ? { guard, text } : { text };
  };
  const again = (name: string): string => ` -m recent --name ${name} --rcheck --seconds ${port.affinitySeconds} --reap`;
  return [
    ...(port.affinitySeconds === undefined ? [] : names.map((name, index) => append(index, again(name)))),
    ...names.map((_name, index) => append(index, chance(names.length - index))),
  ];
}

/** The match for one of `left` endpoints, formatted as Go's `%0.10f`; the last one needs none. */
function chance(left: number): string {
  return left === 1 ? '' : ` -m statistic --mode random --probability ${(1 / left).toFixed(10)}`;
}

/** DNAT to one endpoint, masqueraded for hairpin traffic. */
function endpointRules(compiled: CompiledPort, endpoint: Endpoint): readonly GuardedRule[] {
  const { port } = compiled;
  const chain = compiled.endpointChains.get(endpoint.text)!;
  const append = `-A ${chain} -m comment --comment ${port.key}`;
  const remember = port.affinitySeconds === undefined ? '' : `-m recent --name ${chain} --set `;
  return [
    { text: `${append} -s ${endpoint.address} -j KUBE-MARK-MASQ` },
    { text: `${append} ${remember}${protocolMatch(compiled)} -j DNAT --to-destination ${endpoint.text}` },
  ];
}
