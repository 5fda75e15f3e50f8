import { cidrContains, findSet, type IpSet, type VirtualServer } from '@sluice/netfilter';
import type { ObservedIpvs, NodeIpvs } from './values.ts';

/**
 * The state of a kube-proxy in mode ipvs on this node: its sets, all addresses of its interface, and the virtual servers of these
 * addresses, of its sets and of its node ports. keepalived's have other addresses and are in no set (kube-proxy's
 * `pkg/proxy/ipvs/proxier.go`, `syncProxyRules` and `CleanupLeftovers`).
 * @param excludeCIDRs networks whose virtual servers are left out
 * @returns a state to roll back to; undefined if the node has no such interface
 */
export function kubeProxyState(observed: ObservedIpvs, excludeCIDRs: readonly string[]): NodeIpvs | undefined {
  const { bound, timeouts } = observed;
  if (!bound) return undefined;
  const sets = new Map([...observed.sets].filter(([name]) => findSet(name)));
  const isOfProxy = ownership({ ...observed, sets, bound });
  const servers = [...observed.servers].filter(
    ([, server]) => isOfProxy(server) && !excludeCIDRs.some((cidr) => cidrContains(cidr, server.address)),
  );
  return {
    sets,
    virtualServers: new Map(servers),
    addresses: { ipv4: [...bound.ipv4], ipv6: [...bound.ipv6] },
    ...(timeouts ? { timeouts } : {}),
    excludeCIDRs,
  };
}

type KubeProxyObjects = Pick<ObservedIpvs, 'sets' | 'elsewhere'> & {
  readonly bound: NonNullable<ObservedIpvs['bound']>;
};

function ownership({ sets, bound, elsewhere }: KubeProxyObjects): (server: VirtualServer) => boolean {
  const named = new Set([...sets.values()].flatMap(({ entries }) => [...entries]));
  const nodePorts = portsOf(sets.values());
  return ({ family, protocol, address, port }) =>
    bound[family].has(address) ||
    named.has(`${address},${protocol}:${port}`) ||
    (elsewhere[family].has(address) && nodePorts.has(`${protocol} ${port}`));
}

/** Node ports by protocol, from the sets for them: entries are `30080`, or `192.0.2.11,sctp:30080`. */
function portsOf(sets: Iterable<IpSet>): ReadonlySet<string> {
  const ports = new Set<string>();
  for (const { name, entries } of sets) {
    const protocol = /^KUBE-(?:6-)?NODE-PORT-(TCP|UDP|SCTP)/.exec(name)?.[1]?.toLowerCase();
    if (protocol === undefined) continue;
    for (const entry of entries) ports.add(`${protocol} ${entry.replace(/^.*:/, '')}`);
  }
  return ports;
}
