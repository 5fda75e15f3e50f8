import { ownAddress, baseFile, valueOf } from '@sluice/bundle';
import { cidrContains, type Family } from '@sluice/netfilter';
import { loopback } from '../flows/destinations.ts';
import type { BundleView } from '../bundle/view.ts';
import type { ProfileTrafficPolicy } from './connection.ts';

/** `! -d` excludes the loopback addresses. Without an addrtype match the profile's nodePortAddresses decide. */
export function openNodePorts(
  view: BundleView,
  profile: string,
  family: Family,
  tail?: string,
): ProfileTrafficPolicy['nodePorts'] {
  const chosen = view.profiles.get(profile)?.nodePortAddresses ?? [];
  // Outside of the node only its address in `node.yaml` is known.
  const isOpen = chosen.length === 0 || chosen.includes(ownAddress);
  const address = (text: string): boolean => isOpen || chosen.some((cidr) => cidrContains(cidr, text));
  const isLoopbackChosen = chosen.some((cidr) => cidrContains(cidr, loopback[family]));
  const localhost = tail?.startsWith('-m addrtype') ? !tail.includes('! -d') : tail !== undefined && isLoopbackChosen;
  return { address, localhost };
}

/** The detector that a profile's values and rules imply: each detector has its own variable. */
export function detectorOf(view: BundleView, profile: string, family: Family): string {
  const values = view.profiles.get(profile)?.values ?? {};
  if (valueOf(values, undefined, 'bridgeInterface') !== undefined) return '! -i ${profile.bridgeInterface}';
  if (valueOf(values, undefined, 'interfaceNamePrefix') !== undefined) return '! -i ${profile.interfaceNamePrefix}+';
  const bases = (['iptables', 'ip6tables'] as const).map((tool) => baseFile(profile, 'first', tool));
  const texts = [...bases, ...view.index(profile, family).paths];
  const isByNode = texts.some((path) => view.files.get(path)?.includes('${node.podCIDR}'));
  return isByNode ? '! -s ${node.podCIDR}' : '! -s ${profile.clusterCIDR}';
}
