import { modeFacts, isScheduler, schedulers, nearest } from '@sluice/netfilter';
import type { IpvsProfile, Profile } from '../../render/model/config.ts';
import type { Complain, Get, Setting, SettingName } from './settings.ts';

/** The options of mode ipvs from the merged settings; in whole seconds, like in the kernel. */
export function ipvsOf(get: Get): IpvsProfile {
  const scheduler = get('ipvs.scheduler');
  return {
    scheduler: isScheduler(scheduler) ? scheduler : 'rr',
    excludeCIDRs: get('ipvs.excludeCIDRs'),
    strictARP: get('ipvs.strictARP'),
    timeouts: {
      tcp: Math.floor(get('ipvs.tcpTimeout')),
      tcpFin: Math.floor(get('ipvs.tcpFinTimeout')),
      udp: Math.floor(get('ipvs.udpTimeout')),
    },
  };
}

/** A month: the maximum of ipvsadm for each timeout. */
const timeoutMax = 31 * 86_400;

/** Checks the options of mode ipvs; in mode iptables they are not used. */
export function checkIpvs(
  profile: Profile,
  chosen: (name: SettingName) => Setting | undefined,
  complain: Complain,
): void {
  if (profile.mode !== 'ipvs') return;
  const hint =
    'The rules do not need kube-proxy; for nodes that should follow Kubernetes change to mode nftables or iptables: /usr/share/doc/sluice/adopt.md, "A change of Sluice\'s own mode"';
  complain('mode', '', hint, {
    code: 'MODE_DEPRECATED',
    level: 'note',
    message: `Mode ipvs of kube-proxy is deprecated since Kubernetes 1.35, ${modeFacts.ipvs.ends}`,
  });
  const scheduler = chosen('ipvs.scheduler')?.value ?? 'rr';
  if (typeof scheduler === 'string' && !isScheduler(scheduler)) {
    const guess = nearest(scheduler, schedulers);
    complain(
      'ipvs.scheduler',
      `${JSON.stringify(scheduler)} is not a known scheduler`,
      guess === undefined ? `Use one of ${schedulers.join(', ')}` : `Did you mean ${guess}?`,
    );
  }
  for (const name of ['ipvs.tcpTimeout', 'ipvs.tcpFinTimeout', 'ipvs.udpTimeout'] as const) {
    const seconds = Number(chosen(name)?.value ?? 0);
    if (seconds > timeoutMax)
      complain(
        name,
        `${seconds} seconds is more than the maximum of IPVS`,
        'Use at most 744h0m0s, or 0s to keep the value of the kernel',
      );
    else if (Math.floor(seconds) !== seconds)
      complain(name, `IPVS uses whole seconds, so this becomes ${Math.floor(seconds)}`, 'Round the duration', {
        level: 'warning',
      });
  }
}
