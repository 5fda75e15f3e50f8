import { compareText } from '@sluice/bundle';
import type { Profile } from '../config.ts';
import { needsRouteLocalnet } from './nodeports.ts';

/**
 * `base/sysctl.conf`: what kube-proxy sets when it starts (`cmd/kube-proxy/app/server_linux.go`) and what the profile adds,
 * which wins. 0 leaves a setting alone.
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
  const settings = new Map<string, string>();
  for (const [key, value] of implied) if (value) settings.set(key, String(value));
  for (const [key, value] of Object.entries(profile.sysctls)) settings.set(key, value);
  const lines = [...settings].toSorted(([a], [b]) => compareText(a, b)).map(([key, value]) => `${key} = ${value}\n`);
  return lines.join('');
}
