import type { Mode } from '../rules/mode-facts.ts';
import type { TableName } from '../family.ts';
import { targetOf } from '../rules/words.ts';
import { sharedChains } from './shared.ts';

const isNew = '-m conntrack --ctstate NEW ';
const portals = '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES';
const external = '-m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES';
const firewall = '-m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL';
const healthChecks = '-m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS';
const forwarding = '-m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD';
const postrouting = '-m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING';

/**
 * The jumps to kube-proxy's chains in the kernel's final order: kube-proxy inserts each at the first position, so the last one inserted
 * is the first (`iptablesJumpChains` in `pkg/proxy/iptables/proxier.go`). They are spelled as iptables-save prints them. The jumps to
 * KUBE-FIREWALL have no comment, like the kubelet's own.
 */
export const flatJumps = {
  filter: [
    '-A INPUT -j KUBE-FIREWALL',
    `-A INPUT ${isNew}${firewall}`,
    `-A INPUT ${healthChecks}`,
    `-A INPUT ${isNew}${external}`,
    `-A FORWARD ${isNew}${firewall}`,
    `-A FORWARD ${forwarding}`,
    `-A FORWARD ${isNew}${portals}`,
    `-A FORWARD ${isNew}${external}`,
    '-A OUTPUT -j KUBE-FIREWALL',
    `-A OUTPUT ${isNew}${firewall}`,
    `-A OUTPUT ${isNew}${portals}`,
  ],
  nat: [`-A PREROUTING ${portals}`, `-A OUTPUT ${portals}`, `-A POSTROUTING ${postrouting}`],
} as const satisfies Record<TableName, readonly string[]>;

const accessFilter = '-m comment --comment "kubernetes ipvs access filter"';
const proxyFirewall = '-m comment --comment "kube-proxy firewall rules" -j KUBE-PROXY-FIREWALL';

/** The same for mode ipvs (`iptablesJumpChain` in `pkg/proxy/ipvs/proxier.go`). */
const ipvsJumps = {
  filter: [
    `-A INPUT ${accessFilter} -j KUBE-IPVS-FILTER`,
    `-A INPUT ${proxyFirewall}`,
    '-A INPUT -m comment --comment "kubernetes health check rules" -j KUBE-NODE-PORT',
    `-A FORWARD ${proxyFirewall}`,
    `-A FORWARD ${forwarding}`,
    `-A OUTPUT ${accessFilter} -j KUBE-IPVS-OUT-FILTER`,
  ],
  nat: flatJumps.nat,
} as const satisfies Record<TableName, readonly string[]>;

/** By mode, the jumps from built-in chains into ours, in the kernel's order. */
export const jumpsOf = {
  iptables: flatJumps,
  ipvs: ipvsJumps,
  nftables: { filter: [], nat: [] },
} as const satisfies Record<Mode, Record<TableName, readonly string[]>>;

/** kube-proxy's own chains that built-in chains jump to, in either mode. */
export const jumpedChains: ReadonlySet<string> = new Set(
  Object.values(jumpsOf)
    .flatMap(({ filter, nat }): readonly string[] => [...filter, ...nat])
    .flatMap((jump) => targetOf(jump) ?? [])
    .filter((name) => !sharedChains.has(name)),
);
