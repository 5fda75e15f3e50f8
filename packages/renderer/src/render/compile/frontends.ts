import type { GuardedRule } from '@sluice/bundle';
import {
  type CompiledPort,
  type NodeScope,
  addressMatch,
  comment,
  externalTarget,
  internalTarget,
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
export function frontendRules(compiled: CompiledPort): FrontendRules {
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
