import { type Family, invalidDrop } from '@sluice/netfilter';
import { type GuardedRule, liberalKey, type RuleFile, type Section } from '@sluice/bundle';
import type { Profile } from '../model/config.ts';
import { hasLocalhostNodePorts, nodePortTail } from '../model/nodeports.ts';

/**
 * The base rules before those of Services: the shared chains and the rules that mark and masquerade, as in kube-proxy's
 * `syncProxyRules` (`pkg/proxy/iptables/proxier.go`).
 */
export function firstRules(profile: Profile, family: Family): RuleFile {
  const filter: Section = {
    table: 'filter',
    chains: [
      'KUBE-SERVICES',
      'KUBE-EXTERNAL-SERVICES',
      'KUBE-FORWARD',
      'KUBE-NODEPORTS',
      'KUBE-PROXY-FIREWALL',
      // kube-proxy has this chain and the jumps to it in both families, even without a rule in it (`iptablesKubeletJumpChains`).
      'KUBE-FIREWALL',
    ],
    rules: hasLocalhostNodePorts(profile, family) ? [{ text: localnetRule }] : [],
  };
  const nat: Section = {
    table: 'nat',
    chains: ['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-POSTROUTING', 'KUBE-MARK-MASQ'],
    rules: masqueradeRules(profile),
  };
  return { header: ['before the Services'], sections: [filter, nat] };
}

/** The rules that mark packets and masquerade marked ones, in both modes. */
export function masqueradeRules(profile: Profile): readonly GuardedRule[] {
  const mark = markOf(profile);
  const randomly = profile.iptables.randomFully ? ' --random-fully' : '';
  const about = '-m comment --comment "kubernetes service traffic requiring SNAT"';
  return [
    { text: `-A KUBE-POSTROUTING -m mark ! --mark ${mark}/${mark} -j RETURN` },
    // The mark is cleared, so that a packet is not masqueraded again inside a tunnel.
    { text: `-A KUBE-POSTROUTING -j MARK --xor-mark ${mark}` },
    { text: `-A KUBE-POSTROUTING ${about} -j MASQUERADE${randomly}` },
    { text: `-A KUBE-MARK-MASQ -j MARK --or-mark ${mark}` },
  ];
}

/** The base rules after those of Services: forwarding, and the jump to node ports. */
export function lastRules(profile: Profile, family: Family): RuleFile {
  const mark = markOf(profile);
  const forward = [
    // A node whose own sysctl is liberal leaves the rule out.
    ...(letsInvalidPass(profile) ? [] : [invalidDrop]),
    `-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark ${mark}/${mark} -j ACCEPT`,
    '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
  ];
  const tail = nodePortTail(profile, family);
  const filter: Section = {
    table: 'filter',
    chains: [],
    rules: forward.map((text) => ({ text })),
  };
  const nat: Section = { table: 'nat', chains: [], rules: tail.map((text) => ({ text })) };
  return { header: ['after the Services'], sections: tail.length === 0 ? [filter] : [filter, nat] };
}

/**
 * With tcp_be_liberal the kernel marks fewer packets INVALID, and the others should pass. As in `sysctlText` a sysctl of the profile
 * takes precedence, so that rules and `sysctl.conf` agree.
 */
function letsInvalidPass({ conntrack, sysctls }: Profile): boolean {
  const chosen = sysctls[liberalKey];
  return chosen === undefined ? conntrack.tcpBeLiberal : Number(chosen) !== 0;
}

/** Protects loopback addresses, which `route_localnet` exposes to other hosts (CVE-2020-8558). The kubelet has the same rule. */
const localnetRule =
  '-A KUBE-FIREWALL -m comment --comment "block incoming localnet connections" -d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP';

/** Go's `%#08x` of the masquerade bit: eight digits after `0x`. */
export function markOf(profile: Profile): string {
  return `0x${(2 ** profile.iptables.masqueradeBit).toString(16).padStart(8, '0')}`;
}
