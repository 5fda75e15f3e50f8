import { type Family, knownSet, type SetKey, setName } from '@sluice/netfilter';
import type { GuardedRule, RuleFile } from '@sluice/bundle';
import type { Profile } from '../../model/config.ts';
import { markOf, masqueradeRules } from '../base.ts';
import { detectorOf } from '../detector.ts';
import type { Undetected } from '../undetected.ts';

/** The chains of mode ipvs, in kube-proxy's order (`iptablesChains` in `pkg/proxy/ipvs/proxier.go`). */
const chains = {
  filter: [
    'KUBE-FORWARD',
    'KUBE-NODE-PORT',
    'KUBE-PROXY-FIREWALL',
    'KUBE-SOURCE-RANGES-FIREWALL',
    'KUBE-IPVS-FILTER',
    'KUBE-IPVS-OUT-FILTER',
  ],
  nat: ['KUBE-SERVICES', 'KUBE-POSTROUTING', 'KUBE-NODE-PORT', 'KUBE-LOAD-BALANCER', 'KUBE-MARK-MASQ'],
} as const;

/**
 * The base rules before those of Services: kube-proxy's `writeIptablesRules` up to them. Rules for a set exist also while the set is
 * empty, so that Services do not change them.
 */
export function firstIpvsRules(profile: Profile, family: Family, undetected: Undetected): RuleFile {
  const ask = asking(family);
  const filter = [
    `-A KUBE-PROXY-FIREWALL ${ask('KUBE-LOAD-BALANCER-FW', 'dst,dst')} -j KUBE-SOURCE-RANGES-FIREWALL`,
    `-A KUBE-SOURCE-RANGES-FIREWALL ${ask('KUBE-LOAD-BALANCER-SOURCE-CIDR', 'dst,dst,src')} -j RETURN`,
    `-A KUBE-SOURCE-RANGES-FIREWALL ${ask('KUBE-LOAD-BALANCER-SOURCE-IP', 'dst,dst,src')} -j RETURN`,
    '-A KUBE-SOURCE-RANGES-FIREWALL -j DROP',
  ];
  const nat: readonly GuardedRule[] = [
    ...texts([
      `-A KUBE-SERVICES -s ${family === 'ipv4' ? '127.0.0.0/8' : '::1/128'} -j RETURN`,
      `-A KUBE-POSTROUTING ${ask('KUBE-LOOP-BACK', 'dst,dst,src')} -j MASQUERADE`,
      `-A KUBE-SERVICES ${ask('KUBE-LOAD-BALANCER', 'dst,dst')} -j KUBE-LOAD-BALANCER`,
      `-A KUBE-LOAD-BALANCER ${ask('KUBE-LOAD-BALANCER-LOCAL', 'dst,dst')} -j RETURN`,
      ...nodePortRules(family),
    ]),
    ...clusterRules(profile, family, undetected),
    ...texts([
      `-A KUBE-SERVICES ${ask('KUBE-EXTERNAL-IP', 'dst,dst')} -j KUBE-MARK-MASQ`,
      ...acceptRules(family, 'KUBE-EXTERNAL-IP'),
      ...acceptRules(family, 'KUBE-EXTERNAL-IP-LOCAL'),
      '-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT',
      '-A KUBE-LOAD-BALANCER -j KUBE-MARK-MASQ',
    ]),
  ];
  return {
    header: ['before the Services'],
    sections: [
      { table: 'filter', chains: chains.filter, rules: texts(filter) },
      { table: 'nat', chains: chains.nat, rules: nat },
    ],
  };
}

/** The base rules after those of Services. */
export function lastIpvsRules(profile: Profile, family: Family): RuleFile {
  const mark = markOf(profile);
  const match = matching(family);
  const known = (['KUBE-LOAD-BALANCER', 'KUBE-CLUSTER-IP', 'KUBE-EXTERNAL-IP', 'KUBE-EXTERNAL-IP-LOCAL'] as const).map(
    (set) => `-A KUBE-IPVS-FILTER ${match(set, 'dst,dst')} -j RETURN`,
  );
  const filter = [
    `-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark ${mark}/${mark} -j ACCEPT`,
    '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
    `-A KUBE-NODE-PORT ${asking(family)('KUBE-HEALTH-CHECK-NODE-PORT', 'dst')} -j ACCEPT`,
    ...known,
    `-A KUBE-IPVS-FILTER ${match('KUBE-HEALTH-CHECK-NODE-PORT', 'dst')} -j RETURN`,
    // The addresses are local, so a process that listens on all addresses would answer on them.
    `-A KUBE-IPVS-FILTER -m conntrack --ctstate NEW ${match('KUBE-IPVS-IPS', 'dst')} -j REJECT`,
  ];
  const accepted = (['KUBE-CLUSTER-IP', 'KUBE-LOAD-BALANCER'] as const).map(
    (set) => `-A KUBE-SERVICES ${match(set, 'dst,dst')} -j ACCEPT`,
  );
  return {
    header: ['after the Services'],
    sections: [
      { table: 'filter', chains: [], rules: texts(filter) },
      { table: 'nat', chains: [], rules: [...texts(accepted), ...masqueradeRules(profile)] },
    ],
  };
}

function nodePortRules(family: Family): readonly string[] {
  const ask = asking(family);
  const pair = (protocol: string, local: SetKey, all: SetKey, sides: string): readonly string[] => [
    `-A KUBE-NODE-PORT -p ${protocol} ${ask(local, sides)} -j RETURN`,
    `-A KUBE-NODE-PORT -p ${protocol} ${ask(all, sides)} -j KUBE-MARK-MASQ`,
  ];
  return [
    ...pair('tcp', 'KUBE-NODE-PORT-LOCAL-TCP', 'KUBE-NODE-PORT-TCP', 'dst'),
    ...pair('udp', 'KUBE-NODE-PORT-LOCAL-UDP', 'KUBE-NODE-PORT-UDP', 'dst'),
    ...pair('sctp', 'KUBE-NODE-PORT-LOCAL-SCTP-HASH', 'KUBE-NODE-PORT-SCTP-HASH', 'dst,dst'),
  ];
}

/** Masquerading of traffic to a ClusterIP. Without a detector: only traffic whose source is a ClusterIP, that of the node itself. */
function clusterRules(profile: Profile, family: Family, undetected: Undetected): readonly GuardedRule[] {
  const rule = (sides: string, who: string): string =>
    `-A KUBE-SERVICES ${asking(family)('KUBE-CLUSTER-IP', sides)} ${who}-j KUBE-MARK-MASQ`;
  if (profile.iptables.masqueradeAll) return texts([rule('dst,dst', '')]);
  const { detectLocalMode, clusterCIDR } = profile;
  if (detectLocalMode === 'ClusterCIDR' && clusterCIDR[family] === undefined) return texts([rule('src,dst', '')]);
  // A node without a pod CIDR has no value for the variable, so it has the second rule only.
  return [
    { text: rule('dst,dst', `${detectorOf(detectLocalMode).ifNotLocal} `) },
    ...undetected.map((guard) => ({ ...(guard && { guard }), text: rule('src,dst', '') })),
  ];
}

/** Accepts traffic from outside and of the node itself, so that it reaches the virtual server without the rules below. */
function acceptRules(family: Family, set: SetKey): readonly string[] {
  const start = `-A KUBE-SERVICES ${asking(family)(set, 'dst,dst')}`;
  return [
    `${start} -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT`,
    `${start} -m addrtype --dst-type LOCAL -j ACCEPT`,
  ];
}

type SetMatch = (set: SetKey, sides: string) => string;

function matching(family: Family): SetMatch {
  return (set, sides) => `-m set --match-set ${setName(set, family)} ${sides}`;
}

/** A match with kube-proxy's comment for the set. */
function asking(family: Family): SetMatch {
  return (set, sides) => `-m comment --comment "${knownSet(set).comment}" ${matching(family)(set, sides)}`;
}

function texts(rules: readonly string[]): readonly GuardedRule[] {
  return rules.map((text) => ({ text }));
}
