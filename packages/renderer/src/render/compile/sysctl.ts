import { compareText } from '@sluice/netfilter';
import type { IpvsProfile, Profile } from '../model/config.ts';
import { needsRouteLocalnet } from '../model/nodeports.ts';

/**
 * `base/sysctl.conf`: the sysctls that kube-proxy sets at start (`cmd/kube-proxy/app/server_linux.go`; in mode ipvs
 * `pkg/proxy/ipvs/proxier.go`, `NewProxier`), and those of the profile, which take precedence. 0: the sysctl is not set.
 * @returns lines by key; `''` when the profile sets nothing
 */
export function sysctlText(profile: Profile): string {
  const { conntrack } = profile;
  const implied: readonly (readonly [string, string | number | false])[] = [
    ['net.ipv4.conf.all.route_localnet', needsRouteLocalnet(profile) && 1],
    ['net.netfilter.nf_conntrack_max', conntrack.maxPerCore > 0 && '${node.conntrackMax}'],
    ['net.netfilter.nf_conntrack_tcp_be_liberal', conntrack.tcpBeLiberal && 1],
    ['net.netfilter.nf_conntrack_tcp_timeout_close_wait', conntrack.tcpCloseWaitTimeout],
    ['net.netfilter.nf_conntrack_tcp_timeout_established', conntrack.tcpEstablishedTimeout],
    ['net.netfilter.nf_conntrack_udp_timeout', conntrack.udpTimeout],
    ['net.netfilter.nf_conntrack_udp_timeout_stream', conntrack.udpStreamTimeout],
  ];
  // By key: a sysctl of the profile replaces an implied one, with its guard.
  const lines = new Map<string, string>();
  for (const [key, value] of implied) if (value) lines.set(key, `${key} = ${value}`);
  for (const [key, line] of profile.ipvs ? ipvsLines(profile.ipvs) : []) lines.set(key, line);
  for (const [key, value] of Object.entries(profile.sysctls)) lines.set(key, `${key} = ${value}`);
  const sorted = [...lines].toSorted(([a], [b]) => compareText(a, b));
  return sorted.map(([, line]) => `${line}\n`).join('');
}

/** The lines of mode ipvs, by key. */
function ipvsLines({ strictARP }: IpvsProfile): readonly (readonly [string, string])[] {
  const set = (key: string, value: number, guard = ''): readonly [string, string] => [key, `${guard}${key} = ${value}`];
  return [
    set('net.ipv4.ip_forward', 1),
    // From 5.9 on the kernel reuses client ports without a delay of 1 s and without losing the endpoint.
    set('net.ipv4.vs.conn_reuse_mode', 0, '@kernel=4.1..5.8 '),
    set('net.ipv4.vs.conntrack', 1),
    set('net.ipv4.vs.expire_nodest_conn', 1),
    set('net.ipv4.vs.expire_quiescent_template', 1),
    ...(strictARP ? [set('net.ipv4.conf.all.arp_announce', 2), set('net.ipv4.conf.all.arp_ignore', 1)] : []),
  ];
}
