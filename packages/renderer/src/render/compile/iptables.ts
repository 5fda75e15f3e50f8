import type { GuardedRule, RuleFile, Section } from '@sluice/bundle';
import { compareText, type Family } from '@sluice/netfilter';
import type { ServiceChainNames } from '../model/chain-names.ts';
import type { Profile } from '../model/config.ts';
import { withoutExternalIPs } from '../model/external-ips.ts';
import type { Endpoint, PortOfFamily, Service, ServicePort } from '../model/model.ts';
import { selectForFleet, type Variant } from '../select/fleet.ts';
import type { NodeFleet } from '../select/guards.ts';
import { detectorOf } from './detector.ts';
import { headerOf } from './header.ts';
import {
  addressMatch,
  comment,
  type CompiledPort,
  externalTarget,
  internalTarget,
  type NodeScope,
  protocolMatch,
  ruleWhere,
  usesExternalChain,
  usesFirewallChain,
} from './port.ts';

/**
 * The rules in shared chains that dispatch traffic to a frontend of one Service port, reject or drop it, as kube-proxy's
 * `syncProxyRules` (`pkg/proxy/iptables/proxier.go`) writes them at every sync.
 */
interface FrontendRules {
  readonly filter: readonly GuardedRule[];
  readonly nat: readonly GuardedRule[];
}

/** In kube-proxy's order: cluster, external, load-balancer addresses, node port, health-check node port. */
function frontendRules(compiled: CompiledPort): FrontendRules {
  const parts = [
    clusterIPRules(compiled),
    ...compiled.here.externalIPs.map((address) => externalIPRules(compiled, address)),
    ...compiled.here.loadBalancerIPs.map((address) => loadBalancerRules(compiled, address)),
    nodePortRules(compiled),
    healthCheckRules(compiled),
  ];
  return { filter: parts.flatMap((part) => part.filter), nat: parts.flatMap((part) => part.nat) };
}

function clusterIPRules(compiled: CompiledPort): FrontendRules {
  const { port, here } = compiled;
  const match = addressMatch(compiled, here.clusterIP);
  const { chain, served, unserved } = internalTarget(compiled);
  return {
    nat: ruleWhere(served, `-A KUBE-SERVICES ${comment(`${port.key} cluster IP`)} ${match} -j ${chain}`),
    filter: rejectionRules(compiled, unserved, 'KUBE-SERVICES', match),
  };
}

function externalIPRules(compiled: CompiledPort, address: string): FrontendRules {
  const { port, chains } = compiled;
  const match = addressMatch(compiled, address);
  return {
    nat: ruleWhere(
      usesExternalChain(compiled),
      `-A KUBE-SERVICES ${comment(`${port.key} external IP`)} ${match} -j ${chains.external}`,
    ),
    filter: rejectionRules(compiled, externalTarget(compiled).unserved, 'KUBE-EXTERNAL-SERVICES', match),
  };
}

/** Packets that the firewall chain does not admit keep the load-balancer address, by which the filter table drops them. */
function loadBalancerRules(compiled: CompiledPort, address: string): FrontendRules {
  const { port, chains } = compiled;
  const match = addressMatch(compiled, address);
  const firewalled = usesFirewallChain(compiled);
  const target = firewalled ? chains.firewall : chains.external;
  const about = comment(`${port.key} traffic not accepted by ${chains.firewall}`);
  return {
    nat: ruleWhere(
      usesExternalChain(compiled),
      `-A KUBE-SERVICES ${comment(`${port.key} loadbalancer IP`)} ${match} -j ${target}`,
    ),
    filter: [
      ...ruleWhere(firewalled, `-A KUBE-PROXY-FIREWALL ${about} ${match} -j DROP`),
      ...rejectionRules(compiled, externalTarget(compiled).unserved, 'KUBE-EXTERNAL-SERVICES', match),
    ],
  };
}

/** Without kube-proxy's rule that only counts packets to localhost: it needs a match that many kernels lack (`xt_nfacct`). */
function nodePortRules(compiled: CompiledPort): FrontendRules {
  const { port, chains } = compiled;
  if (port.nodePort === 0) return { filter: [], nat: [] };
  const match = `${protocolMatch(compiled)} --dport ${port.nodePort}`;
  return {
    // kube-proxy writes a comment of one word without quotes.
    nat: ruleWhere(
      usesExternalChain(compiled),
      `-A KUBE-NODEPORTS -m comment --comment ${port.key} ${match} -j ${chains.external}`,
    ),
    filter: rejectionRules(
      compiled,
      externalTarget(compiled).unserved,
      'KUBE-EXTERNAL-SERVICES',
      `-m addrtype --dst-type LOCAL ${match}`,
    ),
  };
}

/** Accepts health checks in the host's firewall: the listener is on the node itself, with or without endpoints. */
function healthCheckRules({ port }: CompiledPort): FrontendRules {
  const text = comment(`${port.key} health check node port`);
  return {
    nat: [],
    filter: ruleWhere(
      port.healthCheckNodePort !== 0,
      `-A KUBE-NODEPORTS ${text} -m tcp -p tcp --dport ${port.healthCheckNodePort} -j ACCEPT`,
    ),
  };
}

/** For traffic without a usable endpoint: REJECT if no node has one, DROP if other nodes have some. */
function rejectionRules(
  compiled: CompiledPort,
  unserved: NodeScope,
  chain: string,
  match: string,
): readonly GuardedRule[] {
  const { port, selection } = compiled;
  const verdict = selection.hasAny ? 'DROP' : 'REJECT';
  const reason = selection.hasAny ? 'has no local endpoints' : 'has no endpoints';
  return ruleWhere(unserved, `-A ${chain} ${comment(`${port.key} ${reason}`)} ${match} -j ${verdict}`);
}

/** The chains that a Service port has on at least one node, in kube-proxy's order of rules. */
function chainsOf(compiled: CompiledPort): readonly string[] {
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
function chainRules(compiled: CompiledPort): readonly GuardedRule[] {
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

/** The settings of a profile on which rules of Services depend; the rest is in base files and variables. */
export interface ServiceOptions {
  readonly externalIPs: boolean;
  readonly masqueradeAll: boolean;
  readonly detectLocalMode: Profile['detectLocalMode'];
}

/** The context in which all Services of a bundle are compiled. */
export interface CompileContext {
  readonly names: ServiceChainNames;
  readonly fleet: NodeFleet;
}

/**
 * The rules that kube-proxy writes for one Service in one family, for all nodes at once.
 * @returns undefined when the Service has no address of this family
 */
export function compileService(
  whole: Service,
  family: Family,
  options: ServiceOptions,
  context: CompileContext,
): RuleFile | undefined {
  const service = options.externalIPs ? whole : withoutExternalIPs(whole);
  const compiled = service.ports.flatMap((port) => {
    const here = port.families[family];
    return here ? [compilePort(port, here, options, context)] : [];
  });
  if (compiled.length === 0) return undefined;
  const frontends = compiled.map(frontendRules);
  const filter: Section = { table: 'filter', chains: [], rules: frontends.flatMap((rules) => rules.filter) };
  const nat: Section = {
    table: 'nat',
    chains: compiled.flatMap(chainsOf),
    rules: compiled.flatMap((port, index) => [...frontends[index]!.nat, ...chainRules(port)]),
  };
  const sections = [filter, nat].filter((section) => section.rules.length > 0);
  return { header: headerOf(service, family), sections };
}

function compilePort(
  port: ServicePort,
  here: PortOfFamily,
  options: ServiceOptions,
  { names, fleet }: CompileContext,
): CompiledPort {
  const selection = selectForFleet(port, here, fleet);
  const chainOf = (text: string): string => names.endpoint(port.key, port.protocol, text);
  return {
    port,
    here,
    chains: names.port(port.key, port.protocol),
    endpointChains: new Map(selection.all.map(({ text }) => [text, chainOf(text)])),
    selection,
    masqueradeAll: options.masqueradeAll,
    detector: detectorOf(options.detectLocalMode),
  };
}
