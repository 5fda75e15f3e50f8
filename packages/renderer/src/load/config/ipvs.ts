import { schedulers, type Scheduler } from '@sluice/bundle';
import type { IpvsProfile, Profile } from '../../render/config.ts';
import type { Complain, Get } from './profiles.ts';
import { nearest } from '../../render/nearest.ts';
import type { Setting, SettingName } from './settings.ts';

/** The options of mode ipvs out of the merged settings; whole seconds, as the kernel counts. */
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

/** A month: what ipvsadm takes for each time-out. */
const timeoutMax = 31 * 86_400;

/** What only a profile of mode ipvs can have wrong; in mode iptables nobody looks at these options. */
export function checkIpvs(
  profile: Profile,
  chosen: (name: SettingName) => Setting | undefined,
  complain: Complain,
): void {
  if (profile.mode !== 'ipvs') return;
  complain('mode', '', 'Nothing has to change here; mode iptables is there for nodes that should follow Kubernetes', {
    code: 'MODE_DEPRECATED',
    level: 'note',
    message:
      'Cannot count on mode ipvs in kube-proxy: Kubernetes deprecated it in 1.35 and plans to take it out. What is rendered needs no kube-proxy',
  });
  const scheduler = chosen('ipvs.scheduler')?.value ?? 'rr';
  if (typeof scheduler === 'string' && !isScheduler(scheduler)) {
    const guess = nearest(scheduler, schedulers);
    complain(
      'ipvs.scheduler',
      `${JSON.stringify(scheduler)} is no scheduler that sluice knows`,
      guess === undefined ? `Use one of ${schedulers.join(', ')}` : `Did you mean ${guess}?`,
    );
  }
  for (const name of ['ipvs.tcpTimeout', 'ipvs.tcpFinTimeout', 'ipvs.udpTimeout'] as const) {
    const seconds = Number(chosen(name)?.value ?? 0);
    if (seconds > timeoutMax)
      complain(name, `${seconds} seconds is more than IPVS takes`, 'Use at most 744h0m0s, or 0s to leave it alone');
    else if (Math.floor(seconds) !== seconds)
      complain(name, `IPVS counts whole seconds; it gets ${Math.floor(seconds)}`, 'Round the duration', {
        level: 'warning',
      });
  }
}

function isScheduler(text: string): text is Scheduler {
  return (schedulers as readonly string[]).includes(text);
}
