import { baseFile } from '@sluice/bundle';
import { compareText, type Family, toolOf } from '@sluice/netfilter';
import type { BundleView } from '../bundle/view.ts';
import type { ProfileTrafficPolicy } from './connection.ts';
import { detectorOf, openNodePorts } from './traffic-policy.ts';

const masquerading = /^(?:@\S+ )?-A KUBE-SV[CL]-\S+ .* --dport \d+ (! -[si] \S+ )?-j KUBE-MARK-MASQ$/gm;
const nodePortTail = /^-A KUBE-SERVICES -m comment --comment "[^"]*" (.*) -j KUBE-NODEPORTS$/m;

/**
 * Reads the traffic policy of a profile of mode iptables from its rules. The local-pod detector is that of most Services, so that one with another
 * match is reported; the addresses with open node ports are those of the base files.
 */
export function iptablesPolicy(view: BundleView, profile: string, family: Family): ProfileTrafficPolicy {
  const votes = new Map<string, number>();
  for (const path of view.index(profile, family).paths) {
    for (const [, match = ''] of (view.files.get(path) ?? '').matchAll(masquerading) as Iterable<[string, string?]>) {
      votes.set(match.trim(), (votes.get(match.trim()) ?? 0) + 1);
    }
  }
  const [first] = [...votes].toSorted(([a, x], [b, y]) => y - x || compareText(b, a));
  const tail = nodePortTail.exec(view.files.get(baseFile(profile, 'last', toolOf[family])) ?? '')?.[1];
  const match = first?.[0];
  // With masqueradeAll these rules have no match; those for the traffic of pods with policy Local still have it.
  return {
    notLocal: match === undefined || match === '' ? detectorOf(view, profile, family) : match,
    masqueradeAll: match === '',
    nodePorts: openNodePorts(view, profile, family, tail),
  };
}
