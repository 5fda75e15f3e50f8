import { baseFile, type HeaderNotes, ownAddress, valueOf } from '@sluice/bundle';
import {
  cidrContains,
  compareText,
  families,
  type Family,
  familySuffix,
  type Mode,
  networkOf,
  toolOf,
} from '@sluice/netfilter';
import { nftOptionsOf } from '../bundle/nft-options.ts';
import type { BundleView } from '../bundle/view.ts';
import { loopback } from '../flows/destinations.ts';
import type { DeclaredConnection, ExpectedOutcome, ProfileTrafficPolicy } from './connection.ts';
import type { Role } from './declared.ts';
import { expectedIptables } from './expected-iptables.ts';
import { expectedIpvs, withFlags } from './expected-ipvs.ts';
import { expectedNft } from './expected-nft.ts';

/** What declarations demand of the nodes of a mode. */
interface ProvenMode {
  /** The outcome that a Service's declaration demands; health checks are asked of `modeFacts`. */
  readonly expected: (connection: DeclaredConnection) => ExpectedOutcome;
  /** Reads the traffic policy of a profile from its base files and the rules of its Services. */
  readonly trafficPolicy: (view: BundleView, profile: string, family: Family) => ProfileTrafficPolicy;
  /** Whether nodes carry a destination's address, so that its other ports are theirs, too. */
  readonly carries: (role: Role) => boolean;
  /** Where an endpoint's connections to itself are masqueraded: on every node, or by its own node's lines alone. */
  readonly hairpin: 'everywhere' | 'on-own-node' | 'by-own-elements';
  /** Networks that are distinguished besides the source ranges of a load balancer, where it has any. */
  readonly additionalSources: (notes: HeaderNotes) => readonly string[];
}

export const provenModes: Readonly<Record<Mode, ProvenMode>> = {
  iptables: {
    expected: expectedIptables,
    trafficPolicy: iptablesPolicy,
    carries: () => false,
    hairpin: 'everywhere',
    additionalSources: () => [],
  },
  ipvs: {
    expected: expectedIpvs,
    trafficPolicy: ipvsPolicy,
    carries: () => true,
    hairpin: 'on-own-node',
    additionalSources: () => [],
  },
  nftables: {
    expected: expectedNft,
    trafficPolicy: nftPolicy,
    carries: (role) => role === 'cluster',
    hairpin: 'by-own-elements',
    // From such an address a node inside of the ranges connects.
    additionalSources: ({ loadBalancerAddresses }) => loadBalancerAddresses,
  },
};

const masquerading = /^(?:@\S+ )?-A KUBE-SV[CL]-\S+ .* --dport \d+ (! -[si] \S+ )?-j KUBE-MARK-MASQ$/gm;
const nodePortTail = /^-A KUBE-SERVICES -m comment --comment "[^"]*" (.*) -j KUBE-NODEPORTS$/m;

/**
 * Reads the traffic policy of a profile of mode iptables from its rules. The local-pod detector is that of most Services, so that one with another
 * match is reported; the addresses with open node ports are those of the base files.
 */
function iptablesPolicy(view: BundleView, profile: string, family: Family): ProfileTrafficPolicy {
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

/** The traffic policy of a profile of mode ipvs, from its base files and its document. */
function ipvsPolicy(view: BundleView, profile: string, family: Family): ProfileTrafficPolicy {
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

/** The traffic policy of a profile of mode nftables, from its base files. */
function nftPolicy(view: BundleView, profile: string, family: Family): ProfileTrafficPolicy {
  const { localhost, localhostListener } = nftOptionsOf(view, profile);
  return {
    ...nftDetectorOf(view, profile, family),
    nodePorts: {
      ...openNodePorts(view, profile, family),
      localhost: family === 'ipv4' && localhost === 'served',
    },
    refusesLocalhost: localhost !== undefined,
    listensOnLocalhost: family === 'ipv6' && localhostListener === true,
  };
}

/** In mode nftables the table has the interface of pods, and set `pods` their addresses, as set `keep` does for ClusterIPs. */
function nftDetectorOf(
  view: BundleView,
  profile: string,
  family: Family,
): Pick<ProfileTrafficPolicy, 'notLocal' | 'masqueradeAll'> {
  const last = view.files.get(baseFile(profile, 'last', 'nft')) ?? '';
  const { detector, masqueradeAll } = nftOptionsOf(view, profile);
  if (detector !== 'address') return { notLocal: `! -i ${detector.interface.replace(/\*$/, '+')}`, masqueradeAll };
  // The lines of the other family have the same variable, and without any the profile's values tell which networks were meant.
  const names = [familySuffix[family], '[46]'].flatMap((n) => ['pods', 'keep'].map((name) => `${name}${n}`));
  const [network] = names.flatMap(
    (name) => new RegExp(`^add element inet sluice ${name} \\{ (\\$\\S+) \\}$`, 'm').exec(last)?.[1] ?? [],
  );
  const isKnown = valueOf(view.profiles.get(profile)?.values ?? {}, family, 'clusterCIDR') !== undefined;
  const variable = network ?? (isKnown ? '${profile.clusterCIDR}' : undefined);
  return { notLocal: variable === undefined ? '' : `! -s ${variable}`, masqueradeAll };
}

/**
 * The addresses with node ports in a family, by `profile.yaml`. A list without an item of the family opens every address, as kube-proxy's
 * `NewNodePortAddresses` does.
 * @param tail mode iptables: the match of the jump to node ports, where the family has one; `! -d` excludes the loopback addresses
 */
function openNodePorts(
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
function detectorOf(view: BundleView, profile: string, family: Family): string {
  const values = view.profiles.get(profile)?.values ?? {};
  if (valueOf(values, undefined, 'bridgeInterface') !== undefined) return '! -i ${profile.bridgeInterface}';
  if (valueOf(values, undefined, 'interfaceNamePrefix') !== undefined) return '! -i ${profile.interfaceNamePrefix}+';
  const bases = (['iptables', 'ip6tables'] as const).map((tool) => baseFile(profile, 'first', tool));
  const texts = [...bases, ...view.index(profile, family).paths];
  const isByNode = texts.some((path) => view.files.get(path)?.includes('${node.podCIDR}'));
  return isByNode ? '! -s ${node.podCIDR}' : '! -s ${profile.clusterCIDR}';
}
