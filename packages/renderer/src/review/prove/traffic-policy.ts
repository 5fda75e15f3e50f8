import { ownAddress, baseFile, valueOf } from '@sluice/bundle';
import { cidrContains, type Family, networkOf } from '@sluice/netfilter';
import { loopback } from '../flows/destinations.ts';
import type { BundleView } from '../bundle/view.ts';
import type { ProfileTrafficPolicy } from './connection.ts';

/**
 * The addresses with node ports in a family, by `profile.yaml`. A list without an item of the family opens every address, as kube-proxy's
 * `NewNodePortAddresses` does.
 * @param tail mode iptables: the match of the jump to node ports, where the family has one; `! -d` excludes the loopback addresses
 */
export function openNodePorts(
  view: BundleView,
  profile: string,
  family: Family,
  tail?: string,
): ProfileTrafficPolicy['nodePorts'] {
  const chosen = view.profiles.get(profile)?.nodePortAddresses ?? [];
  const own = chosen.filter((text) => networkOf(text)?.family === family);
  const isIn = (text: string): boolean => own.some((cidr) => cidrContains(cidr, text));
  // Outside of the node only its address in `node.yaml` is known.
  const isOpen = own.length === 0 || chosen.includes(ownAddress);
  const isLoopbackChosen = isIn(loopback[family]);
  const localhost = tail?.startsWith('-m addrtype') ? !tail.includes('! -d') : tail !== undefined && isLoopbackChosen;
  return { address: (text) => isOpen || isIn(text), localhost };
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
