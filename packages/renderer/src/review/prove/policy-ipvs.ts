import { baseFile } from '@sluice/bundle';
import { families, type Family, toolOf } from '@sluice/netfilter';
import type { BundleView } from '../bundle/view.ts';
import type { ProfileTrafficPolicy } from './connection.ts';
import { withFlags } from './expected-ipvs.ts';
import { detectorOf, openNodePorts } from './traffic-policy.ts';

/** The traffic policy of a profile of mode ipvs, from its base files and its document. */
export function ipvsPolicy(view: BundleView, profile: string, family: Family): ProfileTrafficPolicy {
  const { ipvs } = view.profiles.get(profile)!;
  return {
    notLocal: ipvsDetectorOf(view, profile),
    nodePorts: openNodePorts(view, profile, family),
    ...(ipvs ? { scheduler: withFlags(ipvs.scheduler) } : {}),
  };
}

const ipvsMasquerading =
  /^-A KUBE-SERVICES .*--match-set KUBE-(?:6-)?CLUSTER-IP dst,dst (! -[si] \S+ )?-j KUBE-MARK-MASQ$/m;

/** In mode ipvs one rule of each family has the detector; where they disagree, the profile's values decide. */
function ipvsDetectorOf(view: BundleView, profile: string): string {
  const found = families.flatMap((family) => {
    const text = view.files.get(baseFile(profile, 'first', toolOf[family]));
    return text === undefined ? [] : [ipvsMasquerading.exec(text)];
  });
  const matches = found.flatMap((match) => (match ? [(match[1] ?? '').trim()] : []));
  const [first] = matches;
  const agree = matches.length === found.length && matches.every((match) => match === first);
  return agree && first !== undefined ? first : ipvsFallback(view, profile, matches);
}

function ipvsFallback(view: BundleView, profile: string, matches: readonly string[]): string {
  const detector = detectorOf(view, profile, 'ipv4');
  return matches.includes(detector) ? detector : (matches[0] ?? detector);
}
