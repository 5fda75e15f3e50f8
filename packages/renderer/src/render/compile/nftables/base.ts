import { type Family, type NftTableOptions, printNftTable } from '@sluice/netfilter';
import type { NftablesProfile, Profile, SluiceConfig } from '../../model/config.ts';
import type { PerFamily, Model } from '../../model/model.ts';
import { type GuardedLine, printLines } from '../lines.ts';
import { hasLocalhostListener, localhostOfTable, nodePortScope, primary } from '../../model/nodeports.ts';
import { type Undetected, undetectedNodes } from '../undetected.ts';
import { type AddElements, addingElements } from './elements.ts';
import { networkElements } from './networks.ts';
import { baseFile, serviceFile } from '@sluice/bundle';
import type { Memo } from '../../model/memo.ts';
import type { NodeFleet } from '../../select/guards.ts';
import type { ServiceFiles, ServiceFilesContext } from '../service-files.ts';
import { type NftServiceOptions, nftServiceText } from './service.ts';

/** `base/first.nft`: the table without elements. */
export function nftTableText(profile: Profile, options: NftablesProfile): string {
  const localhost = localhostOfTable(profile);
  return printNftTable({
    ...options,
    detector: detectorOf(profile),
    ...(localhost && { localhost }),
    ...(hasLocalhostListener(profile) && { localhostListener: true }),
  });
}

function detectorOf({ detectLocalMode }: Profile): NftTableOptions['detector'] {
  switch (detectLocalMode) {
    case 'ClusterCIDR':
    case 'NodeCIDR':
      return 'address';
    case 'BridgeInterface':
      return { interface: '${profile.bridgeInterface}' };
    case 'InterfaceNamePrefix':
      return { interface: '${profile.interfaceNamePrefix}*' };
  }
}

/** What `base/last.nft` depends on besides the profile. */
interface NftBase {
  /** The Service CIDRs of the cluster, where they are known. */
  readonly serviceCIDRs: PerFamily<readonly string[]>;
  readonly undetectedIn: (family: Family) => Undetected;
}

/** `base/last.nft`: the elements that the profile sets; `''` when there are none. */
export function nftBaseText(profile: Profile, nftables: NftablesProfile, base: NftBase): string {
  const families = (['ipv4', 'ipv6'] as const).filter((family) => profile.families.includes(family));
  const lines = families.flatMap((family) => {
    const add = addingElements(family);
    return [
      ...podLines(profile, nftables, family, base.undetectedIn(family)),
      ...nodeElements(profile, family).flatMap((element) => add('node', [element])),
      ...add('cidr', networkElements(base.serviceCIDRs[family] ?? [])),
    ];
  });
  const isNamed = Object.values(base.serviceCIDRs).some((cidrs) => cidrs.length > 0);
  return printLines(isNamed ? [] : [unnamed], lines);
}

/** `sluice prove` expects packets to be dropped in the CIDRs of `cluster.yaml`, unless these are defaults. */
const unnamed = 'serviceCIDRs is not set: packets to addresses that no Service has are not dropped';

const whole = { ipv4: '0.0.0.0/0', ipv6: '::/0' } as const;

/**
 * The sources that count as inside, and those that keep their address at a ClusterIP. Where pods cannot be distinguished from other sources, none
 * are inside and all keep their address, as in kube-proxy without a detector. A variable without a value omits its line.
 */
function podLines(
  profile: Profile,
  { masqueradeAll }: NftablesProfile,
  family: Family,
  undetected: Undetected,
): readonly GuardedLine[] {
  if (detectorOf(profile) !== 'address') return [];
  const add = addingElements(family);
  const keep: AddElements = (...line) => (masqueradeAll ? [] : add(...line));
  const isUnknown = profile.detectLocalMode === 'ClusterCIDR' && profile.clusterCIDR[family] === undefined;
  if (isUnknown) return keep('keep', [whole[family]]);
  const pods = [profile.detectLocalMode === 'NodeCIDR' ? '${node.podCIDR}' : '${profile.clusterCIDR}'];
  return [
    ...add('pods', pods),
    ...keep('keep', pods),
    ...undetected.flatMap((guard) => keep('keep', [whole[family]], guard)),
  ];
}

/** The addresses with node ports; of loopback addresses the table serves one at most. */
function nodeElements(profile: Profile, family: Family): readonly string[] {
  const scope = nodePortScope(profile, family);
  switch (scope.kind) {
    case 'any':
      return [whole[family]];
    case 'primary':
      return [own];
    case 'cidrs':
      return networkElements(scope.cidrs.map((text) => (text === primary ? own : text)));
  }
}

const own = '${node.address}';

/** The base files of a profile of mode nftables, as path and text. */
type NftBaseFiles = (profile: Profile, nftables: NftablesProfile) => readonly [path: string, text: string][];

export function nftBaseFiles(model: Model, config: SluiceConfig, fleet: NodeFleet): NftBaseFiles {
  return (profile, nftables) => {
    const base = {
      // Defaults may not be the networks of this cluster, and packets to them would be dropped.
      serviceCIDRs: config.named.serviceCIDRs ? config.serviceCIDRs : {},
      undetectedIn: (family: Profile['families'][number]) => undetectedNodes(profile, family, model, fleet),
    };
    const files: readonly [string, string][] = [
      [baseFile(profile.name, 'first', 'nft'), nftTableText(profile, nftables)],
      [baseFile(profile.name, 'last', 'nft'), nftBaseText(profile, nftables, base)],
    ];
    return files.filter(([, text]) => text !== '');
  };
}

/** The files of each Service for a profile of mode nftables, compiled once per set of options. */
export function nftServiceFiles(profile: Profile, { fleet, nodes }: ServiceFilesContext, memo: Memo): ServiceFiles {
  const options: NftServiceOptions = {
    externalIPs: profile.featureGates.AllowServiceExternalIPs,
    families: profile.families,
  };
  const key = `nft ${JSON.stringify(options)}`;
  return (service) => {
    const text = memo.of(key, service, [fleet], () => nftServiceText(service, options, { fleet, nodes }));
    return text === '' ? [] : [[serviceFile(profile.name, service.namespace, service.name, 'nft'), text]];
  };
}
