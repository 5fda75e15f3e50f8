import { baseFile, ownAddress, valueOf } from '@sluice/bundle';
import {
  families,
  familySuffix,
  cidrContains,
  compareText,
  type Family,
  readNftTable,
  tableOptions,
  toolOf,
} from '@sluice/netfilter';
import { loopback } from '../flows/destinations.ts';
import type { ProfileTrafficPolicy } from './connection.ts';
import type { BundleView } from '../bundle/view.ts';
import { withFlags } from './expected-ipvs.ts';

const masquerading = /^(?:@\S+ )?-A KUBE-SV[CL]-\S+ .* --dport \d+ (! -[si] \S+ )?-j KUBE-MARK-MASQ$/gm;
const nodePortTail = /^-A KUBE-SERVICES -m comment --comment "[^"]*" (.*) -j KUBE-NODEPORTS$/m;

/**
 * Reads the traffic policy of a profile from its rules. The local-pod detector is that of most Services, so that one with another
 * match is reported; the addresses with open node ports are those of the base files.
 */
export function trafficPolicyOf(view: BundleView, profile: string, family: Family): ProfileTrafficPolicy {
  const { mode, ipvs } = view.profiles.get(profile)!;
  if (mode === 'ipvs') {
    return {
      notLocal: ipvsDetectorOf(view, profile),
      nodePorts: openNodePorts(view, profile, family, undefined),
      ...(ipvs ? { scheduler: withFlags(ipvs.scheduler) } : {}),
    };
  }
  if (mode === 'nftables') {
    return { ...nftDetectorOf(view, profile, family), nodePorts: openNodePorts(view, profile, family, undefined) };
  }
  const votes = new Map<string, number>();
  for (const path of view.index(profile, family).paths) {
    for (const [, match = ''] of (view.files.get(path) ?? '').matchAll(masquerading) as Iterable<[string, string?]>) {
      votes.set(match.trim(), (votes.get(match.trim()) ?? 0) + 1);
    }
  }
  const [first] = [...votes].toSorted(([a, x], [b, y]) => y - x || compareText(b, a));
  const tail = nodePortTail.exec(view.files.get(baseFile(profile, 'last', toolOf[family])) ?? '')?.[1];
  return {
    notLocal: first === undefined ? detectorOf(view, profile, family) : first[0],
    nodePorts: openNodePorts(view, profile, family, tail),
  };
}

/** `! -d` excludes the loopback addresses. Without an addrtype match the profile's nodePortAddresses decide. */
function openNodePorts(
  view: BundleView,
  profile: string,
  family: Family,
  tail: string | undefined,
): ProfileTrafficPolicy['nodePorts'] {
  const chosen = view.profiles.get(profile)?.nodePortAddresses ?? [];
  // Outside of the node only its address in `node.yaml` is known.
  const isOpen = chosen.length === 0 || chosen.includes(ownAddress);
  const address = (text: string): boolean => isOpen || chosen.some((cidr) => cidrContains(cidr, text));
  const isLoopbackChosen = chosen.some((cidr) => cidrContains(cidr, loopback[family]));
  const localhost = tail?.startsWith('-m addrtype') ? !tail.includes('! -d') : tail !== undefined && isLoopbackChosen;
  return { address, localhost };
}

/** In mode nftables the table has the interface of pods, and set `pods` their addresses, as set `keep` does for ClusterIPs. */
function nftDetectorOf(
  view: BundleView,
  profile: string,
  family: Family,
): Pick<ProfileTrafficPolicy, 'notLocal' | 'masqueradeAll'> {
  const text = (where: 'first' | 'last'): string => view.files.get(baseFile(profile, where, 'nft')) ?? '';
  const { detector, masqueradeAll } = tableOptions([readNftTable(text('first')) ?? '']);
  if (detector !== 'address') return { notLocal: `! -i ${detector.interface.replace(/\*$/, '+')}`, masqueradeAll };
  // The lines of the other family have the same variable, and without any the profile's values tell which networks were meant.
  const names = [familySuffix[family], '[46]'].flatMap((n) => ['pods', 'keep'].map((name) => `${name}${n}`));
  const [network] = names.flatMap(
    (name) => new RegExp(`^add element inet sluice ${name} \\{ (\\$\\S+) \\}$`, 'm').exec(text('last'))?.[1] ?? [],
  );
  const isKnown = valueOf(view.profiles.get(profile)?.values ?? {}, family, 'clusterCIDR') !== undefined;
  const variable = network ?? (isKnown ? '${profile.clusterCIDR}' : undefined);
  return { notLocal: variable === undefined ? '' : `! -s ${variable}`, masqueradeAll };
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

/** The detector that a profile's values and rules imply: each detector has its own variable. */
function detectorOf(view: BundleView, profile: string, family: Family): string {
  const values = view.profiles.get(profile)?.values ?? {};
  if (valueOf(values, undefined, 'bridgeInterface') !== undefined) return '! -i ${profile.bridgeInterface}';
  if (valueOf(values, undefined, 'interfaceNamePrefix') !== undefined) return '! -i ${profile.interfaceNamePrefix}+';
  const bases = (['iptables', 'ip6tables'] as const).map((tool) => baseFile(profile, 'first', tool));
  const texts = [...bases, ...view.index(profile, family).paths];
  const isByNode = texts.some((path) => view.files.get(path)?.includes('${node.podCIDR}'));
  return isByNode ? '! -s ${node.podCIDR}' : '! -s ${profile.clusterCIDR}';
}
